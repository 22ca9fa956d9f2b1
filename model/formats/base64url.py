"""Base64url (RFC 4648, section 5): bytes as text in URLs and JSON."""

from __future__ import annotations

import base64
import binascii
import re


def from_base64url(text: bytes) -> bytes:
    """Bytes from base64url, with or without padding. Raises ValueError."""
    if not re.fullmatch(rb"[A-Za-z0-9_-]*={0,2}", text):
        raise ValueError("not base64url: only A-Z a-z 0-9 - _ and trailing = are allowed")
    bare = text.rstrip(b"=")
    try:
        return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))
    except binascii.Error:
        raise ValueError("not base64url: the length is invalid") from None


def to_base64url(raw: bytes) -> bytes:
    """The base64url of bytes, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
