"""OAuth tokens from a function in Python that the setting `sasl.oauth.token` names, for SASL's
mechanism OAUTHBEARER. The clients call it again before a token expires."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model.classes import import_class, is_class_path
from model.problems import ConfigurationError

log = logging.getLogger(__name__)

SETTING = "sasl.oauth.token"

_MAX_TOKEN_BYTES = 64 * 1024
_MAX_REASON = 300  # characters
# s since 1970: the year 5138. The same number in ms is in 1973.
_MAX_EXPIRY = 1e11


_DEFAULTS: tuple[Any, ...] = ("", {})  # of the principal and the extensions


class NoTokenError(Exception):
    """The function has raised an error, or its result is not a token. The text says which."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, its end in s since 1970, and SASL's principal and extensions (RFC 7628)."""

    text: str
    expiry: float
    principal: str = ""
    extensions: tuple[tuple[str, str], ...] = ()


class TokenFunction:
    """Calls the function, which has no parameters, and checks its result. Thread-safe if the
    function is.

    The function returns (token, end in s since 1970), and may add the principal and a dictionary of
    extensions, as the callback `oauth_cb` of confluent-kafka does.
    """

    def __init__(self, path: str) -> None:
        """`path`: "package.module:function". Raises ConfigurationError if it cannot be imported."""
        if not is_class_path(path):
            raise ConfigurationError(
                f'[kafka] {SETTING}: {path!r} does not have the form "package.module:function"'
            )
        try:
            function = import_class(path)
        except ConfigurationError as e:
            raise ConfigurationError(f"[kafka] {SETTING}: {e}") from e
        if not callable(function):
            raise ConfigurationError(f"[kafka] {SETTING}: {path} is not a function")
        self._path = path
        self._function: Callable[[], Any] = function

    def token(self) -> Token:
        """A new token. Raises NoTokenError."""
        try:
            result = self._function()
        except Exception as e:
            raise self._error(f"{type(e).__name__}: {e}") from None
        try:
            return _checked(result)
        except ValueError as e:
            raise self._error(str(e)) from None

    def oauth_cb(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """The callback of confluent-kafka. Raises NoTokenError, after which librdkafka calls it
        again. A client that is being made says only that it has no token, so this logs the reason.
        """
        try:
            token = self.token()
        except NoTokenError as e:
            log.warning("%s", e)
            raise
        return token.text, token.expiry, token.principal, dict(token.extensions)

    def _error(self, reason: str) -> NoTokenError:
        short = reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
        return NoTokenError(f"no OAuth token from {self._path} ([kafka] {SETTING}): {short}")


def _checked(result: Any) -> Token:
    """The token. Raises ValueError, without the token in its text."""
    if not isinstance(result, tuple) or not 2 <= len(result) <= 4:
        raise ValueError("it must return (token, end in s since 1970)")
    text, expiry, principal, extensions = (*result, *_DEFAULTS[len(result) - 2 :])
    if not isinstance(text, str):
        raise ValueError(f"the token is not a text but {type(text).__name__}")
    if not text:
        raise ValueError("the token is empty")
    if len(text) > _MAX_TOKEN_BYTES or not text.isascii() or not text.isprintable():
        raise ValueError(f"the token is not printable ASCII of at most {_MAX_TOKEN_BYTES} bytes")
    if isinstance(expiry, bool) or not isinstance(expiry, int | float) or not math.isfinite(expiry):
        raise ValueError("the end of the token is not a number")
    if expiry > _MAX_EXPIRY:
        raise ValueError("the end of the token is in s since 1970, not in ms")
    if expiry <= time.time():
        raise ValueError("the token has expired")
    if not isinstance(principal, str):
        raise ValueError(f"the principal is not a text but {type(principal).__name__}")
    if not isinstance(extensions, Mapping) or not all(
        isinstance(part, str) for pair in extensions.items() for part in pair
    ):
        raise ValueError("the extensions are not a dictionary of texts")
    return Token(text, float(expiry), principal, tuple(extensions.items()))
