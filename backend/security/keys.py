"""The keys that verify tokens: from a file, or from a URL with a JWK set.

One thread reads them again: a file twice a second, a URL as often as configured and when a token
names a key that is not known. Until the URL has been read again, it is not known whether that key
is in the set, and requests must be retried. A key that vanishes from the file or the set is refused
from then on. If a source cannot be read, the last keys stay usable; those of a URL for a limited
time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from backend.security.key_formats import MAX_BYTES, MAX_TRIED, VerificationKey
from backend.security.private_files import exposure
from model.http.answers import RequestFailed
from model.http.requests import send
from model.problems import ConfigurationError, RetryLater

FILE_INTERVAL = 0.5  # s between two looks at a file
MIN_URL_INTERVAL = 5.0  # s, however often unknown keys are named
_MAX_WANTED = 64  # unknown keys that are remembered between two reads
_TIMEOUT = 10.0  # s for an answer

log = logging.getLogger(__name__)

Parse = Callable[[bytes], list[VerificationKey]]
"""Raises ValueError."""


class Source(Protocol):
    """Where keys come from."""

    name: str
    interval: float  # s between two reads
    min_interval: float | None  # s; None: an unknown key is not a reason to read again
    max_age: float  # s for which its keys stay usable while it cannot be read
    exposure: str | None  # who else may read its secrets, as of the last read; None: no one

    def read(self) -> bytes:
        """The content. Raises ValueError."""

    def discard(self) -> None:
        """Forget what was read last: it is of no use, so the next `read` must not refer to it."""


class FileSource:
    """A file."""

    interval = FILE_INTERVAL
    min_interval: float | None = None
    max_age = float("inf")

    def __init__(self, setting: str, path: Path) -> None:
        """`setting`: where the file is configured, for errors."""
        self.name = f"{setting} ({path})"
        self.exposure: str | None = None
        self._path = path

    def read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                self.exposure = exposure(os.fstat(file.fileno()))
                return file.read(MAX_BYTES + 1)
        except OSError as e:
            raise ValueError(f"it cannot be read: {e.strerror}") from None

    def discard(self) -> None:
        """Each `read` reads the whole file."""


class UrlSource:
    """An http(s) URL. Redirects are refused, so that https does not lead to http."""

    exposure: str | None = None  # no secrets come from a URL

    def __init__(
        self,
        setting: str,
        url: str,
        interval: float = 10.0,
        max_age: float = 86_400.0,
        min_interval: float = MIN_URL_INTERVAL,
    ) -> None:
        """`setting`: where the URL is configured, for errors. `interval`: s between two reads.
        `max_age`: s for which the keys stay usable while the URL cannot be read."""
        self.name = f"{setting} ({url.partition('?')[0]})"  # the query may have a secret
        self.interval = interval
        self.min_interval: float | None = min(min_interval, interval)
        self.max_age = max_age
        self._url = url
        self._content, self._etag = b"", ""

    def read(self) -> bytes:
        headers = {"Accept": "application/json"}
        if self._etag:
            headers["If-None-Match"] = self._etag
        try:
            answer = send(self._url, _TIMEOUT, MAX_BYTES, headers=headers, use_proxies=True)
        except RequestFailed as e:
            raise ValueError(f"it cannot be fetched: {e}") from None
        if answer.status == 304 and self._etag:
            return self._content
        if not answer.is_success:
            raise ValueError(f"it answers with status {answer.status}")
        self._content, self._etag = answer.body, answer.headers.get("ETag", "")
        return self._content

    def discard(self) -> None:
        self._content, self._etag = b"", ""


class TokenKeys:
    """The current keys of a source. `start` and `stop` are for the owner of its thread."""

    def __init__(self, source: Source, parse: Parse) -> None:
        self._source = source
        self._parse = parse
        self._keys: tuple[VerificationKey, ...] = ()
        self._generation = 0
        self._content: bytes | None = None  # None: nothing was read yet
        self._failure: str | None = None
        self._read_at = self._good_at = -float("inf")  # any read, and one without an error
        self._wanted: set[str] = set()  # ids of unknown keys since the last read began
        self._missing: frozenset[str] = frozenset()  # ids that the last read did not find
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="token-keys", daemon=True)

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def algorithms(self) -> set[str]:
        """The algorithms of the keys."""
        return {key.algorithm for key in self._keys}

    def keys(self, key_id: str | None, algorithm: str) -> Sequence[Any]:
        """The keys to try, at most MAX_TRIED; RetryLater if a key may be missing only because the
        source could not be read yet."""
        keys = self._keys
        if self._content is None or (
            key_id is not None
            and all(key.key_id not in (key_id, None) for key in keys)
            and self._may_appear(key_id)
        ):
            raise RetryLater(
                "keys-unavailable", "The keys that verify tokens are being fetched. Retry."
            )
        return [
            key.key
            for key in keys
            if key.algorithm == algorithm and (key_id is None or key.key_id in (key_id, None))
        ][:MAX_TRIED]

    def _may_appear(self, key_id: str) -> bool:
        """Whether a key that is not known may be in the source; asks for a new look at it."""
        least = self._source.min_interval
        if least is None:
            return False
        if key_id in self._missing and time.monotonic() - self._read_at < least:
            return self._failure is not None
        if len(self._wanted) < _MAX_WANTED:
            self._wanted.add(key_id)
        self._wake.set()
        return True

    def load(self) -> None:
        """The first read of a source that must not fail. Raises ConfigurationError."""
        self.refresh()
        if self._failure is not None:
            raise ConfigurationError(f"{self._source.name}: {self._failure}.")

    def refresh(self) -> None:
        """Reads the source again. Errors are logged, and the last keys stay."""
        wanted, self._wanted = self._wanted, set()
        before = self._keys
        try:
            content = self._source.read()
            if content != self._content:
                keys = tuple(self._parse(content))
                if self._source.exposure and any(key.algorithm == "HS256" for key in keys):
                    raise ValueError(self._source.exposure)
                if not keys:
                    log.warning("%s has no key that can verify tokens", self._source.name)
                self._content = content
                if keys != self._keys:
                    # the keys first: a token that is verified now counts for the old generation
                    self._keys = keys
                    self._generation += 1
            self._good_at = time.monotonic()
            self._note(None)
        except ValueError as e:
            self._source.discard()
            self._note(str(e))
            self._expire()
        finally:
            self._missing = frozenset(wanted | _ids(before)) - _ids(self._keys)
            self._read_at = time.monotonic()

    def _expire(self) -> None:
        """Forgets keys that may have been revoked long ago. Tokens get 503 until the next read."""
        age = time.monotonic() - self._good_at
        if self._content is None or age <= self._source.max_age:
            return
        log.error("%s: its keys are too old, after %.0f s", self._source.name, age)
        self._content, self._keys = None, ()
        self._generation += 1

    def _note(self, failure: str | None) -> None:
        """Logs a failure once."""
        if failure is not None and failure != self._failure:
            log.error("%s: %s; the last keys stay in use", self._source.name, failure)
        self._failure = failure

    def start(self) -> None:
        """Starts the thread that reads the source again."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; it may still wait for an answer, and ends after it."""
        self._stopped.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.refresh()
            except Exception:
                log.exception("cannot refresh %s", self._source.name)
                self._expire()
            least = self._source.min_interval or 0.0
            failed = self._failure is not None and least
            self._wake.wait(least if failed else self._source.interval)
            self._stopped.wait(max(0.0, self._read_at + least - time.monotonic()))
            self._wake.clear()


def _ids(keys: Sequence[VerificationKey]) -> set[str]:
    return {key.key_id for key in keys if key.key_id is not None}
