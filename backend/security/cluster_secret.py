"""The cluster secret: a file with one or two lines, each of them a secret.

Requests are signed with the first secret, and verified with both. So instances and proxies can get
a new secret one after another. The file is read again when it changes.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from backend.security.private_files import exposure
from backend.telemetry.rate_limited_log import RateLimitedLog
from model.problems import ConfigurationError

SETTING = "QUERYABLE_CLUSTER_SECRET_FILE"
MIN_BYTES = 32
_MAX_SECRETS = 2
_MAX_FILE_BYTES = 4096
_CHECK_INTERVAL = 1.0  # s

log = RateLimitedLog(logging.getLogger(__name__))


class Keys(NamedTuple):
    """The keys that are derived from one secret, one for each purpose."""

    peer: bytes
    proxy: bytes
    answer: bytes
    client: bytes
    connection: bytes


def keys_of(secret: bytes, application_id: str) -> Keys:
    """The keys of one secret. Instances of another application have other keys, even with the same
    secret. The keys of proxies do not depend on the application, because proxies do not know it."""
    application = b" " + application_id.encode()
    return Keys(
        _derived(secret, b"peer" + application),
        _derived(secret, b"proxy"),
        _derived(secret, b"answer" + application),
        _derived(secret, b"client"),
        _derived(secret, b"connection"),
    )


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, b"queryable-topics " + purpose, hashlib.sha256)


def parse(content: bytes) -> list[bytes]:
    """The secrets in a file; ValueError, which never contains them."""
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"it has more than {_MAX_FILE_BYTES} bytes")
    secrets = [line.strip() for line in content.split(b"\n") if line.strip()]
    if not 1 <= len(secrets) <= _MAX_SECRETS:
        raise ValueError(f"it has {len(secrets)} secrets; one or two are allowed, one a line")
    shortest = min(map(len, secrets))
    if shortest < MIN_BYTES:
        raise ValueError(
            f"a secret has {shortest} bytes; at least {MIN_BYTES} are needed. Create one with: "
            "openssl rand -hex 32"
        )
    return secrets


class ClusterSecret:
    """The keys of the secrets in a file. Used in the event loop and in other threads."""

    def __init__(
        self, path: Path, application_id: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises ConfigurationError if the file cannot be used. `clock`: s."""
        self._path = path
        self._application_id = application_id
        self._clock = clock
        self._checked_at = clock()
        self._version: object = None
        try:
            self._version = self._stat()
            self._keys = self._read()
        except (OSError, ValueError) as e:
            raise ConfigurationError(f"{SETTING}: {path}: {_reason(e)}") from None

    def current(self) -> tuple[Keys, ...]:
        """The keys of each secret; the first one signs. If the file has changed and cannot be used,
        the previous ones stay."""
        now = self._clock()
        if now - self._checked_at >= _CHECK_INTERVAL:
            self._checked_at = now
            try:
                version = self._stat()
                if version != self._version:
                    self._keys = self._read()
                    self._version = version
                    logging.getLogger(__name__).info("read %s again: it has changed", self._path)
            except (OSError, ValueError) as e:
                log.warn(
                    "cannot be read",
                    f"{self._path}: {_reason(e)}. The previous cluster secrets stay in use",
                )
        return self._keys

    def _stat(self) -> tuple[int, int, int, int]:
        status = self._path.stat()
        return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode

    def _read(self) -> tuple[Keys, ...]:
        with self._path.open("rb") as file:
            if (wrong := exposure(os.fstat(file.fileno()))) is not None:
                raise ValueError(wrong)
            content = file.read(_MAX_FILE_BYTES + 1)
        return tuple(keys_of(secret, self._application_id) for secret in parse(content))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
