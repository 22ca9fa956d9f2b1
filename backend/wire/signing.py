"""Signed messages between members of the group: 64 characters of HMAC-SHA256, then the text.

The secret is part of the topology that only members of the group receive.
"""

from __future__ import annotations

import hashlib
import hmac

_LENGTH = 64


def sign(text: bytes, secret: str) -> bytes:
    """The signed text."""
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest().encode() + text


def verified(signed: bytes, secret: str) -> bytes | None:
    """The text; None if the signature is invalid, or if there is no secret yet."""
    text = signed[_LENGTH:]
    if not secret or not hmac.compare_digest(sign(text, secret), signed):
        return None
    return text
