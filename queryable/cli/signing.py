"""Creates keys on this machine, and signs tokens with them, for trying authentication without an
issuer."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from queryable.client.protocol.errors import BadUse

ALGORITHMS = ("ES256", "HS256")
SCOPE = re.compile(r"(read|append):(\*|[A-Za-z0-9._-]{1,249})|metrics|admin", re.ASCII)
_MAX_KEY_BYTES = 65_536


def create_key(path: Path, algorithm: str) -> None:
    """Writes a new key that only its owner can read: for HS256 a secret, for ES256 a private key,
    with the public key in `<path>.pub`. Raises BadUse; an existing file stays as it is."""
    if algorithm == "HS256":
        _create(path, secrets.token_hex(32).encode() + b"\n", 0o600)
        return
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    _create(path, private, 0o600)
    try:
        _create(public_path(path), public, 0o644)
    except BadUse:
        path.unlink()  # otherwise, the next call would use it with a public key of another one
        raise


def public_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def _create(path: Path, content: bytes, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise BadUse(f"Cannot create {path}: {error.strerror or error}.") from None


def read_key(path: Path) -> tuple[bytes, str]:
    """The key in a file, and its algorithm. Raises BadUse, which never has the content."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_KEY_BYTES)
    except OSError as error:
        raise BadUse(f"Cannot read the key {path}: {error.strerror or error}.") from None
    if b"-----BEGIN" not in content:
        secret = content.rstrip(b"\r\n")
        if len(secret) < 32:
            raise BadUse(f"The secret in {path} has {len(secret)} bytes; HS256 needs 32 or more.")
        return secret, "HS256"
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BadUse(
            f"{path} is neither a private P-256 key (PEM) without a password nor a secret."
        )
    return content, "ES256"


def sign(
    path: Path, scopes: Sequence[str], lifetime: float, subject: str, **claims: str | None
) -> str:
    """A token with these scopes, valid for `lifetime` s. `claims`: iss and aud, if given. Raises
    BadUse."""
    if wrong := [scope for scope in scopes if not SCOPE.fullmatch(scope)]:
        raise BadUse(
            f"{wrong[0]!r} is not a scope. Scopes: read:VIEW, read:*, append:TOPIC, append:*, "
            "metrics, admin."
        )
    key, algorithm = read_key(path)
    now = int(time.time())
    payload = {
        "sub": subject,
        "iat": now,
        "exp": now + max(int(lifetime), 1),
        "scope": " ".join(dict.fromkeys(scopes)),
        **{name: value for name, value in claims.items() if value},
    }
    return jwt.encode(payload, key, algorithm)
