"""The settings of a client, from its arguments and the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from queryable.client.protocol.context import Settings
from queryable.client.protocol.errors import BadUse
from queryable.client.tokens import Token, token_source

DEFAULT_URL = "http://127.0.0.1:8080"


MAX_URLS = 8


def client_settings(
    url: str | Sequence[str] | None,
    timeout: float,
    direct: bool,
    token: Token | None,
    token_file: str | os.PathLike[str] | None,
) -> Settings:
    """`url` defaults to QUERYABLE_URL, else DEFAULT_URL. Raises BadUse."""
    given = url or os.environ.get("QUERYABLE_URL") or DEFAULT_URL
    texts = given.split(",") if isinstance(given, str) else list(given)
    if len(texts) > MAX_URLS:
        raise BadUse(f"{len(texts)} URLs are given; at most {MAX_URLS} are allowed.")
    first, *others = dict.fromkeys(_base_url(text.strip()) for text in texts)
    if timeout <= 0:
        raise BadUse(f"timeout={timeout} is invalid: it must be greater than 0.")
    return Settings(first, timeout, direct, token_source(token, token_file), tuple(others))


def _base_url(text: str) -> str:
    """Without a slash at the end. Raises BadUse."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadUse(f"{text!r} is not a valid URL. Expected one such as {DEFAULT_URL}.")
    return parts.geturl().rstrip("/")  # with the scheme in lower case
