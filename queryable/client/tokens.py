"""Where a client's token comes from: a text, a function, a file, or QUERYABLE_TOKEN."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from queryable.client.protocol.errors import BadUse

Token = str | Callable[[], str]
"""A token, or a function that returns the current one. It is called for each request, in the thread
or event loop of the call, so it should return a token that it keeps."""

_MAX_FILE = 65_536
_VALID = re.compile(r"[A-Za-z0-9._~+/=-]+", re.ASCII)  # RFC 6750, 2.1


def token_source(
    token: Token | None, token_file: str | os.PathLike[str] | None
) -> Callable[[], str] | None:
    """A function that returns the token for a request; None if there is none.

    Without arguments, QUERYABLE_TOKEN is the token. An empty `token` means no token. This function
    and the returned one raise BadUse; no error contains the token.
    """
    if token is not None and token_file is not None:
        raise BadUse("Pass token or token_file, not both.")
    if token_file is not None:
        source = TokenFile(Path(token_file))
        source()  # an invalid file is an error now
        return source
    if token is None:
        token = os.environ.get("QUERYABLE_TOKEN", "")
        origin = "QUERYABLE_TOKEN"
    else:
        origin = "token"
    if callable(token):
        function = token
        return lambda: _checked(function(), "the function for the token")
    if not token:
        return None
    text = _checked(token, origin)
    return lambda: text


class TokenFile:
    """The token in a file, read again when the file changes.

    A file that is missing or empty for a moment, because it is being replaced, leaves the last
    token in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._token = ""

    def __call__(self) -> str:
        try:
            now = self._path.stat()
            stamp = (now.st_mtime_ns, now.st_ino, now.st_size)
            if stamp != self._stamp:
                self._token, self._stamp = self._read(), stamp
        except (OSError, BadUse) as error:
            if not self._token:
                if isinstance(error, BadUse):
                    raise
                raise BadUse(
                    f"Cannot read the token file {self._path}: {error.strerror or error}."
                ) from None
        return self._token

    def _read(self) -> str:
        with self._path.open("rb") as file:
            content = file.read(_MAX_FILE)
        return _checked(content.decode("ascii", "replace"), f"the token file {self._path}")


def _checked(token: str, origin: str) -> str:
    text = token.strip() if isinstance(token, str) else ""
    if not _VALID.fullmatch(text):
        problem = "no token" if not text else "characters that no token has"
        raise BadUse(f"{origin} has {problem}. Expected a bearer token, for example a JWT.")
    return text
