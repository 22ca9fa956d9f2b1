"""Keys that verify tokens, from PEM, a secret, or a JWK set (RFC 7517). Pure.

Each key is for one algorithm, which follows from its type. So a public key is never used as the
secret of an HMAC, whatever the header of a token says.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jwt
import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

MIN_SECRET_BYTES = 32
MAX_BYTES = 256 << 10  # of a key file, or a JWK set
MAX_TRIED = 8  # keys for one token: a forged token must not cost more
_MAX_KEYS = 64  # of a set, whose keys have ids
_RSA_BITS = range(2048, 8193)
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)
_PUBLIC = (b"PUBLIC KEY", b"RSA PUBLIC KEY")
_PRIVATE_MEMBERS = {"d", "p", "q", "dp", "dq", "qi", "oth"}


class VerificationKey(NamedTuple):
    """A key for PyJWT. `key_id`: None if it has none."""

    algorithm: str
    key: Any
    key_id: str | None = None


def parse_key_file(content: bytes) -> list[VerificationKey]:
    """The public keys of a PEM file, or one secret; ValueError, which never has the content."""
    _check_size(content)
    if b"-----BEGIN" in content:
        keys = [_from_pem(block[1], block[0]) for block in _PEM.finditer(content)]
        if not keys:
            raise ValueError("it has a PEM block without an end")
        return _checked(keys)
    if not content.strip():
        raise ValueError("it is empty")
    secret = content.rstrip(b"\r\n")
    if secret.lstrip().startswith(b"{"):
        raise ValueError("it is JSON; a JWK set is for QUERYABLE_JWT_JWKS")
    if secret.startswith((b"ssh-", b"ecdsa-sha2-")) or _is_der(content):
        raise ValueError("it is a public key in another format than PEM")
    if len(secret) < MIN_SECRET_BYTES:
        raise ValueError(
            f"its secret has {len(secret)} bytes; HS256 needs at least {MIN_SECRET_BYTES}"
        )
    return [VerificationKey("HS256", secret)]


def parse_jwk_set(content: bytes, with_secrets: bool) -> list[VerificationKey]:
    """The keys of a JWK set that can verify tokens here; others are left out. Raises ValueError.

    `with_secrets`: whether secrets (`oct`) are allowed: not from a URL, which others may read.
    """
    _check_size(content)
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise ValueError("it is not JSON") from None
    jwks = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(jwks, list) or not all(isinstance(jwk, dict) for jwk in jwks):
        raise ValueError("it is not a JWK set: a JSON object with a list of keys")
    if len(jwks) > _MAX_KEYS:
        raise ValueError(f"it has {len(jwks)} keys; at most {_MAX_KEYS} are allowed")
    return [key for jwk in jwks if (key := _from_jwk(jwk, with_secrets)) is not None]


def _check_size(content: bytes) -> None:
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")


def _checked(keys: Sequence[VerificationKey]) -> list[VerificationKey]:
    if len(keys) > MAX_TRIED:
        raise ValueError(f"it has {len(keys)} keys; at most {MAX_TRIED} are allowed")
    return list(keys)


def _from_pem(label: bytes, block: bytes) -> VerificationKey:
    if label not in _PUBLIC:
        raise ValueError(f"it has a PEM block {label.decode()}; only public keys are allowed")
    try:
        key = load_pem_public_key(block)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it has a public key that cannot be parsed") from None
    return VerificationKey(_algorithm(key), key)


def _algorithm(key: Any) -> str:
    """The algorithm of a public key. Raises ValueError."""
    if isinstance(key, RSAPublicKey):
        if key.key_size not in _RSA_BITS:
            raise ValueError(
                f"it has an RSA key of {key.key_size} bits; {_RSA_BITS[0]} to {_RSA_BITS[-1]} are "
                f"allowed"
            )
        return "RS256"
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return "ES256"
    if isinstance(key, Ed25519PublicKey):
        return "EdDSA"
    raise ValueError("it has a public key that is neither RSA, P-256 nor Ed25519")


def _is_der(content: bytes) -> bool:
    """Whether the content is a public key in DER, or the base64 of one: the text of a PEM file
    without its first and last line, as some issuers show it."""
    text = b"".join(content.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        decoded = base64.b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        decoded = b""
    return any(map(_is_public_key, (content, decoded)))


def _is_public_key(der: bytes) -> bool:
    try:
        load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _from_jwk(jwk: dict[str, Any], with_secrets: bool) -> VerificationKey | None:
    """The key; None for keys of other algorithms or uses, and for malformed ones."""
    key_id, algorithm = jwk.get("kid"), jwk.get("alg")
    if jwk.get("use", "sig") != "sig" or not isinstance(key_id, str | None):
        return None
    try:
        if jwk.get("kty") == "oct":
            key: Any = jwt.algorithms.HMACAlgorithm.from_jwk(jwk)
            own = "HS256" if with_secrets and len(key) >= MIN_SECRET_BYTES else None
        else:
            public = {name: value for name, value in jwk.items() if name not in _PRIVATE_MEMBERS}
            key = jwt.PyJWK(public).key
            own = _algorithm(key)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return (
        VerificationKey(own, key, key_id) if own is not None and algorithm in (None, own) else None
    )
