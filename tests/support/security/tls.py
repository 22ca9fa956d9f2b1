"""Certificates for tests: authorities, and what they sign."""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that nginx's workers can read, unlike those of pytest; keys in it are private."""
    with tempfile.TemporaryDirectory(prefix="queryable-tls-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


class Authority:
    """A certificate authority; its certificate is in the file `ca`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = _subject(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.ca = folder / f"{name}.pem"
        certificate = (
            _certificate(self._name, self._name, self._key.public_key(), self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(authority_usage(), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *hosts: str,
        organization: str | None = None,
        file: str = "",
        days: float = 1,
    ) -> tuple[Path, Path]:
        """The files of a new certificate and its key. `hosts`: names and addresses; `file`: their
        name without suffix (default: `name`). Earlier files are replaced, one after the other."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.IPAddress(ipaddress.ip_address(h)) for h in hosts if h[0].isdigit()]
        dns = [x509.DNSName(host) for host in hosts if not host[0].isdigit()]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _certificate(
            _subject(name, organization),
            self._name,
            key.public_key(),
            self._key.public_key(),
            days,
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([*names, *dns]), False)
        certificate = builder.add_extension(x509.ExtendedKeyUsage(usages), False).sign(
            self._key, hashes.SHA256()
        )
        cert_file = self._folder / f"{file or name}.pem"
        key_file = self._folder / f"{file or name}-key.pem"
        key_file.touch(0o600)
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cert_file, key_file

    def context(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """The context of a client that trusts this authority alone."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context


def authority_usage() -> x509.KeyUsage:
    """RFC 5280, which Python 3.13 and later follow strictly, wants it in an authority's
    certificate."""
    unused = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
        "encipher_only decipher_only"
    )
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **dict.fromkeys(unused.split(), False))


def _subject(name: str, organization: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization is not None:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    days: float = 1,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
        )
    )
