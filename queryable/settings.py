"""Where a client finds the deployment."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from queryable.core.core import Settings
from queryable.core.errors import BadUse

URL = "http://127.0.0.1:8080"


def client_settings(url: str | None, timeout: float, direct: bool) -> Settings:
    """`url`, or QUERYABLE_URL, or URL; BadUse."""
    given = url or os.environ.get("QUERYABLE_URL") or URL
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadUse(f"{given!r} is no URL such as {URL}.")
    if timeout <= 0:
        raise BadUse(f"timeout={timeout} is not above 0.")
    return Settings(given.rstrip("/"), timeout, direct)
