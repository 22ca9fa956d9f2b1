"""Authentication as the settings want it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.instance.settings import Settings
from backend.security.configuration import token_keys, token_policy
from backend.security.tokens import ALGORITHMS
from model.problems import ConfigurationError, Unavailable
from tests.support.security.private_file import write_private
from tests.support.security.signing_keys import SECRET, SIGNING, secret_set


def settings(**of: Any) -> Settings:
    defaults = {"auth": "jwt", "cluster_secret_file": "secret"}
    return Settings(**{**defaults, **of})


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "needs one of QUERYABLE_JWT_KEY_FILE and QUERYABLE_JWT_JWKS; none is set"),
        ({"jwt_key_file": "k", "jwt_jwks": "k"}, "both are set"),
        ({"auth": "off", "jwt_key_file": "k"}, "QUERYABLE_JWT_KEY_FILE is set, but authentication"),
        ({"auth": "off", "jwt_jwks": "k"}, "QUERYABLE_JWT_JWKS is set, but authentication is off"),
        ({"jwt_key_file": "missing"}, r"QUERYABLE_JWT_KEY_FILE \(missing\): it cannot be read: No"),
        ({"jwt_jwks": "missing"}, r"QUERYABLE_JWT_JWKS \(missing\): it cannot be read"),
        ({"jwt_jwks": "ftp://issuer/keys"}, "must be a file, or an http or https URL"),
        ({"jwt_jwks": "https://me:pw@issuer/keys"}, "without a user"),
        ({"jwt_jwks": "https:///keys"}, "must be a file, or an http or https URL"),
        ({"jwt_key_file": "k", "jwt_algorithms": "none"}, "only HS256, RS256, ES256, EdDSA are"),
        ({"jwt_key_file": "k", "jwt_algorithms": "HS256,RS512"}, "are allowed"),
        ({"jwt_key_file": "k", "jwt_algorithms": " , "}, "are allowed"),
        ({"jwt_key_file": "k", "jwt_header": "X Token"}, "is not the name of a header"),
        ({"jwt_key_file": "k", "cluster_secret_file": ""}, "needs QUERYABLE_CLUSTER_SECRET_FILE"),
    ],
)
def test_settings_that_contradict(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        token_keys(settings(**given))


def test_settings(tmp_path: Path) -> None:
    assert token_keys(settings(auth="off")) is None
    path = tmp_path / "key"
    write_private(path, SECRET)
    given = settings(jwt_key_file=str(path), jwt_algorithms="HS256, ES256", jwt_issuer="i")
    keys = token_keys(given)
    assert keys is not None
    assert keys.keys(None, "HS256") == [SECRET]
    assert token_policy(given).algorithms == ("HS256", "ES256")
    assert token_policy(given).issuer == "i"
    with pytest.raises(ConfigurationError, match=r"has keys for HS256, but .* allows RS256"):
        token_keys(settings(jwt_key_file=str(path), jwt_algorithms="RS256"))
    path.write_bytes(secret_set(SECRET))
    keys = token_keys(settings(jwt_jwks=str(path)))
    assert keys is not None
    assert keys.keys(None, "HS256") == [SECRET]


def test_an_instance_starts_although_the_url_does_not_answer() -> None:
    keys = token_keys(settings(jwt_jwks="http://127.0.0.1:1/keys"))
    assert keys is not None
    with pytest.raises(Unavailable):
        keys.keys(None, "RS256")


def test_keys_that_are_fetched_without_tls(caplog: pytest.LogCaptureFixture) -> None:
    for url in ("https://issuer.example/keys", "http://127.0.0.1/keys"):
        token_keys(settings(jwt_jwks=url))
    assert caplog.messages == []
    token_keys(settings(jwt_jwks="http://issuer.example/keys"))
    assert "without TLS" in caplog.text


@pytest.mark.parametrize(
    ("host", "is_open"),
    [("127.0.0.1", False), ("127.1.2.3", False), ("::1", False), ("[::1]", False),
     ("localhost", False), ("0.0.0.0", True), ("::", True), ("10.1.2.3", True),
     ("backend.example", True), ("", True)],
)  # fmt: skip
def test_an_address_that_others_reach(host: str, is_open: bool) -> None:
    assert settings(auth="off", host=host).is_open_to_others is is_open
    assert not settings(host=host).is_open_to_others


def test_each_algorithm_has_a_key() -> None:
    assert set(SIGNING) == set(ALGORITHMS) == {"HS256", "RS256", "ES256", "EdDSA"}
