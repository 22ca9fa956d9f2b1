"""Keys of each algorithm, and tokens that they sign."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = b"a secret of the tests, long enough for HS256"
PRIVATE: dict[str, Any] = {
    "RS256": generate_rsa(65537, 2048),
    "ES256": generate_private_key(SECP256R1()),
    "EdDSA": Ed25519PrivateKey.generate(),
}
SIGNING: dict[str, Any] = {"HS256": SECRET, **PRIVATE}
_TO_JWK = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


def pem(private: Any) -> bytes:
    """The public key in PEM."""
    public = private.public_key()
    written = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert isinstance(written, bytes)
    return written


def private_pem(private: Any) -> bytes:
    written = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert isinstance(written, bytes)
    return written


def jwk(algorithm: str, private: Any, **more: Any) -> dict[str, Any]:
    """The public key as a JWK."""
    key: dict[str, Any] = json.loads(_TO_JWK[algorithm].to_jwk(private.public_key()))
    return {**key, **more}


def jwk_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def signed(algorithm: str, key: Any = None, headers: Any = None, **claims: Any) -> bytes:
    """A token for `read:*` that is valid for ten minutes."""
    claims = {"sub": "test", "scope": "read:*", "exp": time.time() + 600, **claims}
    claims = {name: value for name, value in claims.items() if value is not None}
    key = SIGNING[algorithm] if key is None else key
    return jwt.encode(claims, key, algorithm=algorithm, headers=headers).encode()


def secret_set(secret: bytes) -> bytes:
    """A JWK set with this secret."""
    text = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    return jwk_set({"kty": "oct", "k": text})
