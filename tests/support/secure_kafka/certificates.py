"""A certificate authority, and the certificates of the broker and of a client, as PEM files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from tests.support.security.tls import authority_usage


class Authority:
    """Writes `ca.pem`, and certificates for 127.0.0.1 that it signs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = _new_key()
        self._name = _name("authority")
        self._certificate = self._signed(self._name, self._key, is_authority=True)
        self.path = folder / "ca.pem"
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, password: str = "", folder: Path | None = None) -> tuple[Path, Path]:
        """The files of a new certificate and its key, which is encrypted if there is a password.

        `folder`: that of the authority if it is None.
        """
        key = _new_key()
        folder = folder or self._folder
        certificate, key_file = folder / f"{name}.crt", folder / f"{name}.key"
        signed = self._signed(_name(name), key, is_authority=False)
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        encryption: KeySerializationEncryption = (
            BestAvailableEncryption(password.encode()) if password else NoEncryption()
        )
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return certificate, key_file

    def _signed(
        self, name: x509.Name, key: EllipticCurvePrivateKey, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
        )
        if is_authority:
            builder = builder.add_extension(authority_usage(), critical=True)
        return builder.sign(self._key, hashes.SHA256())


def _new_key() -> EllipticCurvePrivateKey:
    return generate_private_key(SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
