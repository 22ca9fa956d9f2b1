"""OAuth tokens for kafka-python, which has no client of a token endpoint, unlike librdkafka."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from backend.security.no_redirects import NoRedirects
from model.kafka.config import OidcClient

_TIMEOUT = 3.0  # s; the client's other connections wait meanwhile
_MAX_ANSWER_BYTES = 64 * 1024
_RENEWED_AFTER = 0.8  # of a token's life, as in librdkafka


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Fetches tokens with the client's credentials, and keeps each for most of its life.
    Thread-safe."""

    def __init__(self, client: OidcClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0
        context = ssl.create_default_context(cafile=client.ca_file)
        self._opener = urllib.request.build_opener(
            NoRedirects, urllib.request.HTTPSHandler(context=context)
        )

    def token(self) -> str:
        """The current token. Raises KafkaConnectionError, after which kafka-python tries again."""
        with self._lock:
            now = time.monotonic()
            if now >= self._renew_at:
                self._token, seconds = self._fetch()
                self._renew_at = now + _RENEWED_AFTER * seconds
            return self._token

    def extensions(self) -> dict[str, str]:
        return dict(self._client.extensions)

    def _fetch(self) -> tuple[str, float]:
        """Fetch a token. Returns it, and its life in s: 0 if the endpoint does not say it."""
        client = self._client
        form = {"grant_type": "client_credentials"} | (
            {"scope": client.scope} if client.scope else {}
        )
        credentials = f"{client.client_id}:{client.client_secret}".encode()
        request = urllib.request.Request(
            client.token_url,
            urllib.parse.urlencode(form).encode(),
            {
                "Accept": "application/json",
                "Authorization": f"Basic {base64.b64encode(credentials).decode()}",
            },
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                body = answer.read(_MAX_ANSWER_BYTES + 1)
            if len(body) > _MAX_ANSWER_BYTES:
                raise ValueError("the answer is too long")
            document = json.loads(body)
            token, seconds = document["access_token"], float(document.get("expires_in", 0))
            if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise ValueError("access_token is not a text")
        except urllib.error.HTTPError as e:
            e.close()  # without its body, which may repeat what was sent
            raise self._failure(f"status {e.code}") from None
        except (OSError, http.client.HTTPException) as e:
            raise self._failure(str(e) or type(e).__name__) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._failure("the answer has no access_token") from None
        return token, seconds

    def _failure(self, why: str) -> KafkaConnectionError:
        return KafkaConnectionError(
            f"no OAuth token from {self._client.token_url} for client {self._client.client_id}: "
            f"{why}"
        )
