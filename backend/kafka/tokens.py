"""OAuth tokens for kafka-python. They come from a function or from a token endpoint. Unlike
librdkafka, kafka-python has no client for a token endpoint."""

from __future__ import annotations

import ssl
import threading
import time
from abc import abstractmethod
from urllib.parse import urlencode

import orjson
from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from model.http.answers import RequestFailed, basic
from model.http.requests import send
from model.kafka.config import OidcClient
from model.kafka.token_function import NoTokenError, TokenFunction

_TIMEOUT = 5.0  # s for an answer; the client's other connections wait meanwhile
_MAX_ANSWER_BYTES = 64 * 1024
_RENEWED_AFTER = 0.8  # of a token's life, as in librdkafka


class _KeptTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Keeps each token for most of its life. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """The current token. Raises KafkaConnectionError, after which kafka-python tries again."""
        with self._lock:
            now = time.monotonic()
            if now >= self._renew_at:
                self._token, seconds = self._fetch()
                self._renew_at = now + _RENEWED_AFTER * seconds
            return self._token

    @abstractmethod
    def _fetch(self) -> tuple[str, float]:
        """A new token, and its life in s. Raises KafkaConnectionError."""


class FunctionTokens(_KeptTokens):
    """Tokens from the function of `sasl.oauth.token`."""

    def __init__(self, function: TokenFunction) -> None:
        super().__init__()
        self._function = function
        self._extensions: dict[str, str] = {}

    def extensions(self) -> dict[str, str]:
        """Those of the current token."""
        return self._extensions

    def _fetch(self) -> tuple[str, float]:
        try:
            token = self._function.token()
        except NoTokenError as e:
            raise KafkaConnectionError(str(e)) from None
        self._extensions = dict(token.extensions)
        return token.text, token.expiry - time.time()


class TokenProvider(_KeptTokens):
    """Fetches tokens from a token endpoint, with the client's credentials."""

    def __init__(self, client: OidcClient) -> None:
        super().__init__()
        self._client = client
        self._tls = ssl.create_default_context(cafile=client.ca_file)

    def extensions(self) -> dict[str, str]:
        return dict(self._client.extensions)

    def _fetch(self) -> tuple[str, float]:
        """Fetch a token. Its life is 0 if the endpoint does not say it."""
        client = self._client
        form = {"grant_type": "client_credentials"} | (
            {"scope": client.scope} if client.scope else {}
        )
        headers = {
            "Accept": "application/json",
            "Authorization": basic(f"{client.client_id}:{client.client_secret}"),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        try:
            answer = send(
                client.token_url,
                _TIMEOUT,
                _MAX_ANSWER_BYTES,
                body=urlencode(form).encode(),
                headers=headers,
                tls=lambda: self._tls,
                use_proxies=True,
            )
            if not answer.is_success:  # without its body, which may repeat what was sent
                raise self._failure(f"status {answer.status}")
            document = orjson.loads(answer.body)
            token, seconds = document["access_token"], float(document.get("expires_in", 0))
            if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise ValueError("access_token is not a text")
        except RequestFailed as e:
            raise self._failure(str(e)) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._failure("the answer has no access_token") from None
        return token, seconds

    def _failure(self, why: str) -> KafkaConnectionError:
        return KafkaConnectionError(
            f"no OAuth token from {self._client.token_url} for client {self._client.client_id}: "
            f"{why}"
        )
