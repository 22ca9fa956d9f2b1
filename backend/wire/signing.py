"""What members of the group sign for one another: 64 characters of HMAC-SHA256, then the text.

The secret is in the map alone, which only members of the group are sent.
"""

from __future__ import annotations

import hashlib
import hmac

_LENGTH = 64


def sign(text: bytes, secret: str) -> bytes:
    """The signed text."""
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest().encode() + text


def verified(signed: bytes, secret: str) -> bytes | None:
    """The text; None if it is not of a member of the group, or there is no secret yet."""
    text = signed[_LENGTH:]
    if not secret or not hmac.compare_digest(sign(text, secret), signed):
        return None
    return text
