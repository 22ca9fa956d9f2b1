"""The settings of a client, from its arguments and the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from queryable.client.protocol.context import Settings
from queryable.client.protocol.errors import BadUse
from queryable.client.tokens import Token, token_source

DEFAULT_URL = "http://127.0.0.1:8080"
_MAX_LABEL = 63  # characters between two dots of a name
_NOT_IN_HOST = re.compile(r"""[\s\0-\x20"#%/<>?@\[\\\]^`{|}\x7f\ud800-\udfff]""")

MAX_URLS = 8


def client_settings(
    url: str | Sequence[str] | None,
    timeout: float,
    direct: bool,
    token: Token | None,
    token_file: str | os.PathLike[str] | None,
) -> Settings:
    """`url` defaults to QUERYABLE_URL, else DEFAULT_URL. Raises BadUse."""
    value = url or os.environ.get("QUERYABLE_URL") or DEFAULT_URL
    texts = value.split(",") if isinstance(value, str) else list(value)
    if len(texts) > MAX_URLS:
        raise BadUse(f"{len(texts)} URLs are given; at most {MAX_URLS} are allowed.")
    base_url, *other_urls = dict.fromkeys(_base_url(text.strip()) for text in texts)
    if not timeout > 0:  # or NaN
        raise BadUse(f"timeout={timeout} is invalid: it must be greater than 0.")
    return Settings(base_url, timeout, direct, token_source(token, token_file), tuple(other_urls))


def _base_url(text: str) -> str:
    """The URL without a slash at the end. Raises BadUse if it is not valid."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # ValueError unless it is a port
        is_valid = parts.scheme in ("http", "https") and not parts.query and not parts.fragment
        is_valid = is_valid and _is_host(parts.hostname or "")
    except ValueError:
        is_valid = False
    if not is_valid:
        raise BadUse(f"{text!r} is not a valid URL. Expected one such as {DEFAULT_URL}.")
    return parts.geturl().rstrip("/")  # with the scheme in lower case


def _is_host(text: str) -> bool:
    """Whether the text may be the name or the address of a host. The HTTP libraries would refuse
    any other text only at the first request, with other messages."""
    if ":" in text:  # an IPv6 address, which urlsplit has checked; it may have a zone
        text = text.replace("%", "", 1)
    labels = text.removesuffix(".").split(".")
    return not _NOT_IN_HOST.search(text) and all(0 < len(label) <= _MAX_LABEL for label in labels)
