"""Keys from files: what is accepted, and how they change."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from hypothesis import given
from hypothesis import strategies as st

from backend.security.key_formats import MAX_BYTES, parse_jwk_set, parse_key_file
from backend.security.keys import FileSource, TokenKeys
from backend.security.private_files import exposure
from backend.security.tokens import TokenVerifier
from local.waiting import wait_until
from model.problems import ConfigurationError, Unauthenticated
from tests.support.security.private_file import write_private
from tests.support.security.signing_keys import (
    PRIVATE,
    SECRET,
    jwk,
    jwk_set,
    pem,
    private_pem,
    secret_set,
    signed,
)

OTHER = b"another secret of the tests, as long"


# formats


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_a_public_key_is_for_its_algorithm_alone(algorithm: str) -> None:
    for (key,) in (
        parse_key_file(pem(PRIVATE[algorithm])),
        parse_jwk_set(jwk_set(jwk(algorithm, PRIVATE[algorithm])), with_secrets=False),
    ):
        assert key.algorithm == algorithm
        assert not isinstance(key.key, bytes)


def test_several_public_keys_in_a_file() -> None:
    content = b"# of the issuer\n" + b"\n".join(map(pem, PRIVATE.values()))
    assert [key.algorithm for key in parse_key_file(content)] == [*PRIVATE]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_secret(end: bytes) -> None:
    (key,) = parse_key_file(SECRET + end)
    assert (key.algorithm, key.key) == ("HS256", SECRET)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (SECRET[:31], "its secret has 31 bytes"),
        (b"\n" * 40, "it is empty"),
        (bytes(MAX_BYTES + 1), "it has more than"),
        (pem(PRIVATE["RS256"]) * 9, "it has 9 keys; at most 8"),
        (pem(PRIVATE["RS256"])[:-30], "without an end"),
        (pem(PRIVATE["RS256"]).replace(b"A", b"B"), "cannot be parsed"),
        (private_pem(PRIVATE["RS256"]), "PEM block PRIVATE KEY; only public keys"),
        (pem(generate_rsa(65537, 1024)), "an RSA key of 1024 bits"),
        (pem(generate_private_key(SECP384R1())), "neither RSA, P-256 nor Ed25519"),
        (b"ssh-ed25519 " + b"A" * 60, "another format than PEM"),
        (jwk_set(jwk("RS256", PRIVATE["RS256"])), "a JWK set is for QUERYABLE_JWT_JWKS"),
    ],
)
def test_a_file_that_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        parse_key_file(content)
    assert len(str(error.value)) < 120


def test_a_key_in_der_is_not_a_secret() -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = PRIVATE["RS256"].public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(ValueError, match="another format than PEM"):
        parse_key_file(der)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_without_the_lines_around_it_is_not_a_secret(algorithm: str) -> None:
    """Everyone knows it, so everyone could sign tokens with it."""
    lines = pem(PRIVATE[algorithm]).splitlines()[1:-1]
    text = b"".join(lines)
    written = (text, text + b"\n", b"\n".join(lines), text.rstrip(b"="),
               text.replace(b"+", b"-").replace(b"/", b"_"))  # fmt: skip
    for content in written:
        with pytest.raises(ValueError, match="another format than PEM"):
            parse_key_file(content)


def test_a_jwk_set_has_only_what_can_verify_tokens_here() -> None:
    key = jwk("ES256", PRIVATE["ES256"])
    found = parse_jwk_set(
        jwk_set(
            {**key, "kid": "1"},
            {**key, "kid": "2", "use": "enc"},
            {**key, "kid": "3", "alg": "ES512"},
            {**key, "kid": 4},
            {**key, "kid": "5", "x": "AA"},
            {**key, "kid": "6", "kty": "what"},
            {**key, "kid": "7", "alg": "ES256", "use": "sig", "d": "AA"},
            {},
        ),
        with_secrets=True,
    )
    assert [key.key_id for key in found] == ["1", "7"]


def test_secrets_are_not_taken_from_a_url() -> None:
    assert parse_jwk_set(secret_set(SECRET), with_secrets=False) == []
    (key,) = parse_jwk_set(secret_set(SECRET), with_secrets=True)
    assert (key.algorithm, key.key) == ("HS256", SECRET)
    assert parse_jwk_set(secret_set(SECRET[:31]), with_secrets=True) == []


@given(st.binary(max_size=100) | st.text(max_size=100).map(str.encode))
def test_any_content_is_parsed_or_refused(content: bytes) -> None:
    for parse in (parse_key_file, lambda of: parse_jwk_set(of, with_secrets=True)):
        try:
            parse(content)
        except ValueError:
            continue


MEMBERS = st.sampled_from(["kty", "kid", "alg", "use", "n", "e", "x", "y", "crv", "k", "d"])
VALUES = st.sampled_from(["RSA", "EC", "OKP", "oct", "AQAB", "P-256", "Ed25519", "", "é", 7, None,
                          [], {}])  # fmt: skip


@given(st.lists(st.dictionaries(MEMBERS, VALUES), max_size=4))
def test_malformed_jwks_are_left_out(keys: list[dict[str, Any]]) -> None:
    for key in parse_jwk_set(jwk_set(*keys), with_secrets=True):
        assert key.algorithm == "HS256"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"keys": 1}',
        b'{"keys": [1]}',
        b"[" * 5000,
        jwk_set(*[{}] * 65),
    ],
)
def test_what_is_not_a_jwk_set(content: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        parse_jwk_set(content, with_secrets=False)


# files


def test_a_rotated_file_revokes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_private(path, SECRET)
    keys = TokenKeys(FileSource("SETTING", path), parse_key_file)
    keys.load()
    verifier = TokenVerifier(keys)
    old, new = signed("HS256"), signed("HS256", OTHER)
    assert verifier.identity(old).subject == "test"
    path.write_bytes(OTHER)
    keys.refresh()
    assert verifier.known(old) is None
    with pytest.raises(Unauthenticated):
        verifier.identity(old)
    assert verifier.identity(new).subject == "test"
    assert keys.generation == 2


def test_the_thread_sees_a_change_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSource, "interval", 0.01)
    path = tmp_path / "key"
    write_private(path, SECRET)
    keys = TokenKeys(FileSource("SETTING", path), parse_key_file)
    keys.load()
    keys.start()
    try:
        assert "token-keys" in {thread.name for thread in threading.enumerate()}
        path.write_bytes(OTHER)
        wait_until(lambda: keys.keys(None, "HS256") == [OTHER], 10, "the new key")
    finally:
        keys.stop()
    assert not keys._thread.is_alive()


def test_a_file_that_cannot_be_read_again_keeps_its_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key"
    write_private(path, SECRET)
    keys = TokenKeys(FileSource("SETTING", path), parse_key_file)
    keys.load()
    for change in (path.unlink, lambda: write_private(path, SECRET[:9]), path.unlink):
        change()
        keys.refresh()
        keys.refresh()
        assert keys.keys(None, "HS256") == [SECRET]
    assert keys.generation == 1
    assert len(caplog.messages) == 3  # each cause once
    assert f"SETTING ({path}): it cannot be read" in caplog.messages[0]
    assert SECRET[:9].decode() not in caplog.text


def test_an_emptied_file_is_reported_and_keeps_its_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_private(tmp_path / "key", SECRET)
    keys = TokenKeys(FileSource("SETTING", path), parse_key_file)
    keys.load()
    path.write_bytes(b"\n")
    keys.refresh()
    assert keys.keys(None, "HS256") == [SECRET]
    assert caplog.messages == [f"SETTING ({path}): it is empty; the last keys stay in use"]


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = write_private(tmp_path / "key", SECRET)
    for mode in (0o644, 0o604, 0o660, 0o602):
        path.chmod(mode)
        with pytest.raises(ConfigurationError, match="other users can read or change it"):
            TokenKeys(FileSource("SETTING", path), parse_key_file).load()
    path.write_bytes(pem(PRIVATE["ES256"]))
    TokenKeys(FileSource("SETTING", path), parse_key_file).load()  # everyone may know it


def test_a_secret_of_root_may_be_readable_by_a_group(tmp_path: Path) -> None:
    found = list(write_private(tmp_path / "key", SECRET).stat())
    for uid, mode, is_private in ((0, 0o640, True), (1, 0o640, False), (0, 0o644, False)):
        found[0], found[4] = mode, uid
        assert (exposure(os.stat_result(found)) is None) == is_private
