"""Signed messages between members of the group: 64 characters of HMAC-SHA256, then the text.

The secret is in the topology that the members receive from their leader.
"""

from __future__ import annotations

import hashlib
import hmac

_LENGTH = 64


def sign(text: bytes, secret: str) -> bytes:
    """The text after its signature."""
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest().encode() + text


def verified(signed: bytes, secret: str) -> bytes | None:
    """The text of a signed message; None if its signature is invalid or there is no secret yet."""
    text = signed[_LENGTH:]
    if not secret or not hmac.compare_digest(sign(text, secret), signed):
        return None
    return text
