"""The TLS settings: what is checked at the start, and when changed files are used."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from backend.instance.settings import Settings
from backend.security.certificates import Certificates
from backend.security.mutual_tls import has_cluster_certificate
from model.problems import ConfigurationError
from tests.support.security.private_file import write_private
from tests.support.security.tls import Authority


def certificates(**files: Any) -> Certificates:
    return Certificates(Settings(**{f"tls_{name}_file": path for name, path in files.items()}))


def test_without_files_an_instance_speaks_http_and_can_verify_peers() -> None:
    none = Certificates()
    assert none.listening is None
    assert none.expires_at is None
    none.refresh()
    assert none.peers().check_hostname
    assert none.peers() is none.peers()


def test_an_empty_setting_is_none() -> None:
    assert certificates(cert="", key="", ca="").listening is None


def test_wrong_files_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("b1", "127.0.0.1")
    other = authority.issue("b2", "127.0.0.1")
    text = write_private(tmp_path / "text.pem", b"not PEM")
    large = tmp_path / "large.pem"
    large.write_bytes(b" " * (1 << 20 | 1))
    encrypted = write_private(
        tmp_path / "encrypted.pem",
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        ),
    )
    exposed = write_private(tmp_path / "exposed.pem", key.read_bytes())
    exposed.chmod(0o640 if os.getuid() else 0o644)
    both = "QUERYABLE_TLS_CERT_FILE and QUERYABLE_TLS_KEY_FILE"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cert": cert}, f"set both {both}"),
        ({"key": key}, f"set both {both}"),
        ({"client_ca": authority.ca}, f"QUERYABLE_TLS_CLIENT_CA_FILE requires {both}"),
        ({"cert": tmp_path / "no", "key": key}, "CERT_FILE: cannot read .*/no: No such file"),
        ({"cert": text, "key": key}, "CERT_FILE: .*text.pem has no certificates in PEM"),
        ({"cert": cert, "key": text}, "KEY_FILE: .*text.pem has no private key in PEM"),
        ({"cert": cert, "key": exposed}, "KEY_FILE: .*exposed.pem: other users can read or"),
        ({"cert": cert, "key": encrypted}, "KEY_FILE: .*is encrypted; give a key without"),
        ({"cert": cert, "key": other[1]}, "b2-key.pem is not the key of the certificate in .*b1"),
        ({"ca": text}, "QUERYABLE_TLS_CA_FILE: .*text.pem has no certificates"),
        ({"ca": large}, "QUERYABLE_TLS_CA_FILE: .*large.pem has more than 1048576 bytes"),
        (
            {"cert": cert, "key": key, "client_ca": tmp_path},
            "QUERYABLE_TLS_CLIENT_CA_FILE: cannot read .*: Is a directory",
        ),
    ]
    for files, message in wrong:
        with pytest.raises(ConfigurationError, match=message):
            certificates(**files)


def test_changed_files_are_used_unless_they_are_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    authority = Authority(tmp_path)
    cert, key = authority.issue("b1", "127.0.0.1", days=1)
    used = certificates(cert=cert, key=key, ca=authority.ca)
    before, expiry = used.peers(), used.expires_at
    assert expiry is not None

    used.refresh()
    assert used.peers() is before

    old = cert.read_bytes()
    authority.issue("b1", "127.0.0.1", days=9)
    new = cert.read_bytes()
    cert.write_bytes(old)  # as between the writes of two files: the key of another certificate
    used.refresh()
    used.refresh()
    assert used.peers() is before
    assert used.expires_at == expiry
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "b1-key.pem is not the key of the certificate" in caplog.text

    cert.unlink()
    used.refresh()
    assert "cannot read" in caplog.text
    cert.write_bytes(new)
    used.refresh()
    assert used.peers() is not before
    assert used.expires_at == pytest.approx(expiry + 8 * 86400, abs=60)
    assert caplog.records[-1].levelname == "INFO"


def test_only_a_certificate_that_was_verified_counts_as_one_of_the_cluster() -> None:
    assert has_cluster_certificate({"extensions": {"tls": {"client_cert_name": "CN=b1"}}})
    assert has_cluster_certificate({"extensions": {"tls": {"client_cert_name": ""}}})
    assert not has_cluster_certificate({"extensions": {"tls": {"client_cert_name": None}}})
    assert not has_cluster_certificate({"extensions": {}})
    assert not has_cluster_certificate({})
