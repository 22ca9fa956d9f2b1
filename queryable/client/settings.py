"""The settings of a client, from its arguments and the environment."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from queryable.client.protocol.context import Settings
from queryable.client.protocol.errors import BadUse
from queryable.client.tokens import Token, token_source

DEFAULT_URL = "http://127.0.0.1:8080"


def client_settings(
    url: str | None,
    timeout: float,
    direct: bool,
    token: Token | None,
    token_file: str | os.PathLike[str] | None,
) -> Settings:
    """`url` defaults to QUERYABLE_URL, else DEFAULT_URL. Raises BadUse."""
    given = url or os.environ.get("QUERYABLE_URL") or DEFAULT_URL
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadUse(f"{given!r} is not a valid URL. Expected one such as {DEFAULT_URL}.")
    if timeout <= 0:
        raise BadUse(f"timeout={timeout} is invalid: it must be greater than 0.")
    base_url = parts.geturl().rstrip("/")  # with the scheme in lower case
    return Settings(base_url, timeout, direct, token_source(token, token_file))
