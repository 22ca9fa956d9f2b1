"""Which tokens are accepted, and why others are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.security import tokens
from backend.security.key_formats import parse_key_file
from backend.security.tokens import MAX_TOKEN_BYTES, TokenPolicy, TokenVerifier
from model.problems import Unauthenticated
from tests.support.security.signing_keys import PRIVATE, SECRET, SIGNING, pem, signed


class Keys:
    """All keys of the tests, each for its algorithm."""

    def __init__(self) -> None:
        self.by_algorithm: dict[str, Any] = {"HS256": SECRET}
        for private in PRIVATE.values():
            (key,) = parse_key_file(pem(private))
            self.by_algorithm[key.algorithm] = key.key
        self.generation = 0
        self.verified = 0

    def keys(self, key_id: str | None, algorithm: str) -> Sequence[Any]:
        self.verified += 1
        return [self.by_algorithm[algorithm]] if algorithm in self.by_algorithm else []


VERIFIER = TokenVerifier(Keys())


def refusal(token: bytes, verifier: TokenVerifier = VERIFIER) -> str:
    with pytest.raises(Unauthenticated) as error:
        verifier.identity(token)
    assert dict(error.value.headers())[b"www-authenticate"].endswith(b'error="invalid_token"')
    assert token.decode("latin-1") not in error.value.detail
    return error.value.detail


def encoded(part: Any) -> bytes:
    raw = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def hmac_signed(header: Any, claims: Any, secret: bytes = SECRET) -> bytes:
    """A token with any header and claims, signed with HMAC-SHA256."""
    signing_input = encoded(header) + b"." + encoded(claims)
    return signing_input + b"." + encoded(hmac.digest(secret, signing_input, hashlib.sha256))


def claims(**more: Any) -> dict[str, Any]:
    return {"scope": "read:*", "exp": time.time() + 60, **more}


@pytest.mark.parametrize("algorithm", SIGNING)
def test_each_algorithm(algorithm: str) -> None:
    identity = VERIFIER.identity(signed(algorithm, scope="read:a append:b other admin"))
    assert identity.subject == "test"
    assert identity.scopes == {"read:a", "append:b", "admin"}
    assert (identity.may_read("a"), identity.may_read("b")) == (True, False)
    assert (identity.may_append("b"), identity.may_append("a")) == (True, False)
    assert identity.expires_at == pytest.approx(time.time() + 600, abs=60)


@pytest.mark.parametrize("algorithm", SIGNING)
def test_an_algorithm_that_is_not_allowed(algorithm: str) -> None:
    others = tuple(each for each in SIGNING if each != algorithm)
    verifier = TokenVerifier(Keys(), TokenPolicy(others))
    assert "its algorithm is not one of" in refusal(signed(algorithm), verifier)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_is_not_the_secret_of_an_hmac(algorithm: str) -> None:
    """Algorithm confusion: everyone has the public key."""
    public = pem(PRIVATE[algorithm])
    keys = Keys()
    del keys.by_algorithm["HS256"]
    token = hmac_signed({"alg": "HS256", "typ": "JWT"}, claims(), public)
    assert "no key verifies its signature" in refusal(token, TokenVerifier(keys))
    assert "no key verifies its signature" in refusal(token)


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", "", None, 0, ["HS256"], {}])
def test_none_is_never_an_algorithm(name: Any) -> None:
    header, body = encoded({"alg": name, "typ": "JWT"}), encoded(claims())
    for policy in (TokenPolicy(), TokenPolicy(("none", *tokens.ALGORITHMS))):
        verifier = TokenVerifier(Keys(), policy)
        for token in (header + b"." + body + b".", hmac_signed({"alg": name}, claims())):
            refusal(token, verifier)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exp": time.time() - 60}, "it has expired"),
        ({"exp": None}, "it has no claim 'exp'"),
        ({"exp": "tomorrow"}, "malformed"),
        ({"exp": [1]}, "malformed"),
        ({"exp": 10**400}, "'exp' is not a time"),
        ({"nbf": time.time() + 86_400}, "it is not valid yet"),
        ({"nbf": [1]}, "malformed"),
        ({"iat": "now"}, "malformed"),
        ({"iss": "another"}, "it has another issuer"),
        ({"iss": None}, "it has no claim 'iss'"),
        ({"aud": "another"}, "it is for another audience"),
        ({"aud": ["another", "one"]}, "it is for another audience"),
        ({"aud": None}, "it has no claim 'aud'"),
        ({"scope": 7}, "its claim 'scope' is neither a text nor a list"),
        ({"scope": ["read:*", 7]}, "its claim 'scope' is neither a text nor a list"),
    ],
)
def test_claims(change: dict[str, Any], why: str) -> None:
    verifier = TokenVerifier(Keys(), TokenPolicy(issuer="issuer", audience="topics"))
    right = {"iss": "issuer", "aud": ["topics", "more"]}
    assert verifier.identity(signed("ES256", **right)).may_read("any")
    assert why in refusal(signed("ES256", **{**right, **change}), verifier)


def test_scopes_can_be_a_list() -> None:
    assert VERIFIER.identity(signed("HS256", scope=["read:a"])).scopes == {"read:a"}
    assert VERIFIER.identity(signed("HS256", scope=None, scp=["read:a"])).scopes == {"read:a"}
    assert VERIFIER.identity(signed("HS256", scope=None)).scopes == set()


def test_the_size_is_checked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens.jwt, "get_unverified_header", lambda token: 1 // 0)
    detail = refusal(b"a" * (MAX_TOKEN_BYTES + 1))
    assert f"it has {MAX_TOKEN_BYTES + 1} bytes" in detail


def test_a_changed_signature_or_claim() -> None:
    token = signed("HS256")
    head, body, signature = token.split(b".")
    assert "no key verifies" in refusal(b".".join((head, encoded(claims(sub="root")), signature)))
    other = signature[:-2] + (b"AA" if signature[-2:] != b"AA" else b"BB")
    assert "no key verifies" in refusal(b".".join((head, body, other)))


def test_json_as_deep_as_may_be() -> None:
    claims = b'{"exp":9999999999,"sub":"a","x":%b}' % (b"[" * 99 + b"]" * 99)
    header = b'{"alg":"HS256","x":%b}' % (b"[" * 99 + b"]" * 99)
    assert TokenVerifier(Keys()).identity(hmac_signed(header, claims)).subject == "a"


@pytest.mark.parametrize("depth", [101, 1000, 3000])
def test_deep_json(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    assert "not a JSON Web Token" in refusal(encoded(deep) + b".e30.e30")
    header = {"alg": "HS256", "typ": "JWT"}
    assert "malformed" in refusal(hmac_signed(header, deep)[: MAX_TOKEN_BYTES + 1])
    assert "not a JSON Web Token" in refusal(hmac_signed(b'{"alg":"HS256","x":%b}' % deep, {}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NAMES = st.sampled_from(["exp", "nbf", "iat", "iss", "aud", "sub", "jti", "scope", "scp"])


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk"]), JSON),
       st.dictionaries(NAMES, JSON))  # fmt: skip
@example({}, {"exp": float("inf")})
@example({"alg": "HS256"}, {"exp": 1e300})
def test_any_signed_token_is_accepted_or_refused(header: Any, body: Any) -> None:
    """Whoever has a secret may sign anything: it is a 401 at worst."""
    token = hmac_signed({"alg": "HS256", **header}, {"exp": 2e9, **body})
    try:
        identity = TokenVerifier(Keys()).identity(token)
    except Unauthenticated:
        return
    assert identity.expires_at > time.time() - 10


@given(st.binary(max_size=200) | st.lists(st.binary(max_size=60), max_size=5).map(b".".join))
@example(b"..")
@example(b"e30.e30.e30")
@example("é.é.é".encode())
def test_any_bytes_are_refused(token: bytes) -> None:
    with pytest.raises(Unauthenticated):
        VERIFIER.identity(token)


def test_a_verified_token_is_cached_until_it_expires() -> None:
    now, keys = time.time(), Keys()
    verifier = TokenVerifier(keys, clock=lambda: now)
    token = signed("RS256", exp=now + 30)
    assert verifier.known(token) is None
    first = verifier.identity(token)
    assert verifier.identity(token) is first
    assert verifier.known(token) is first
    assert keys.verified == 1
    now += 30
    assert verifier.known(token) is None


def test_another_generation_of_keys_empties_the_cache() -> None:
    keys = Keys()
    verifier = TokenVerifier(keys)
    token = signed("HS256")
    verifier.identity(token)
    keys.by_algorithm["HS256"] = b"the next secret" * 3
    keys.generation += 1
    assert verifier.known(token) is None
    assert "no key verifies" in refusal(token, verifier)


def test_keys_that_change_during_a_verification() -> None:
    """The token was verified with the old keys: it is not cached for the new ones."""
    keys = Keys()
    verifier = TokenVerifier(keys)
    token, old = signed("HS256"), keys.keys

    def changing(key_id: str | None, algorithm: str) -> Sequence[Any]:
        found = old(key_id, algorithm)
        keys.by_algorithm["HS256"] = b"the next secret" * 3
        keys.generation += 1
        verifier.known(token)
        return found

    keys.keys = changing  # type: ignore[method-assign]
    verifier.identity(token)
    keys.keys = old  # type: ignore[method-assign]
    assert verifier.known(token) is None
    assert "no key verifies" in refusal(token, verifier)


def test_the_subject_is_unicode_text() -> None:
    """Regression: requests with such a token were 500."""
    token = hmac_signed({"alg": "HS256"}, {"exp": time.time() + 60, "sub": "a\ud800ü"})
    assert VERIFIER.identity(token).subject == "a\\ud800ü"
