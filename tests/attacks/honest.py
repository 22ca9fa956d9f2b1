"""The honest readers: `python -m tests.attacks.honest`, with a JSON document on standard input.

14 of 16 read keys, and 2 read pages of the view. Each has one connection, and waits between two
requests. Prints a line for each request: `kind sent seconds error`, with the monotonic clock of the
machine, so another process can compare the times.
"""

from __future__ import annotations

import http.client
import json
import random
import signal
import sys
import threading
import time

from tests.support.client import key_path

READERS = 16
PAGE_READERS = 2
TIMEOUT = 5.0  # s; a later answer is an error
_PAUSE = 0.02  # s between the requests of a reader of keys
_PAGE_PAUSE = 0.2
_PAGE = 100  # entries

_printing = threading.Lock()

POINT, PAGE = "point", "page"


def value_of(key: str) -> dict[str, str]:
    """The value of a key that no one changes."""
    return {"of": key, "filler": "x" * 200}


class Reader:
    """Reads from a port until `stop`."""

    def __init__(self, number: int, port: int, view: str, keys: list[str], token: str) -> None:
        self._view = view
        self._keys = keys
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._random = random.Random(number)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def run(self, is_page: bool, stop: threading.Event) -> None:
        kind, pause = (PAGE, _PAGE_PAUSE) if is_page else (POINT, _PAUSE)
        while not stop.wait(pause * self._random.uniform(0.5, 1.5)):
            sent = time.monotonic()
            try:
                error = self._page() if is_page else self._point()
            except (OSError, http.client.HTTPException, ValueError) as e:
                self._connection.close()
                error = type(e).__name__
            seconds = time.monotonic() - sent
            with _printing:
                print(f"{kind} {sent:.4f} {seconds:.5f} {error or '-'}", flush=True)

    def _point(self) -> str:
        key = self._random.choice(self._keys)
        status, body = self._get(key_path(self._view, key))
        if status != 200:
            return _code(status, body)
        return "" if json.loads(body) == {"key": key, "value": value_of(key)} else "wrong-value"

    def _page(self) -> str:
        status, body = self._get(f"/views/{self._view}/keys?limit={_PAGE}")
        if status != 200:
            return _code(status, body)
        items = json.loads(body)["items"]
        return "" if len(items) == _PAGE else "short-page"

    def _get(self, path: str) -> tuple[int, bytes]:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def _code(status: int, body: bytes) -> str:
    try:
        return f"{status}-{json.loads(body)['code']}"
    except (ValueError, KeyError, TypeError):
        return str(status)


def main() -> None:
    given = json.load(sys.stdin)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threads = []
    for number in range(READERS):
        # most read through the proxy, some directly from the instance that is attacked
        port = given["backend"] if number % 4 == 3 else given["proxy"]
        reader = Reader(number, port, given["view"], given["keys"], given["token"])
        is_page = number < PAGE_READERS
        threads.append(threading.Thread(target=reader.run, args=(is_page, stop), daemon=True))
    for thread in threads:
        thread.start()
    while not stop.wait(1.0):  # signal handlers run in this thread
        pass


if __name__ == "__main__":
    main()
