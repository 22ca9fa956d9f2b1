"""Reads keys continuously from several threads, and checks every answer."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from local.waiting import wait_until
from tests.support.background import Background
from tests.support.client import Client, Response

# (path, answer) -> the error; "" if the answer is correct
Judge = Callable[[str, Response], str]

_ENOUGH = 20  # wrong answers to keep
_PAUSE_S = 0.002  # after each read: the servers, and other tests, need processors, too


class ReadLoop(Background):
    """GETs every path from every port repeatedly, in `threads` threads, during the block.

    `outcomes` counts the answers by status and code. A failed connection is not an error.
    """

    def __init__(
        self, ports: Sequence[int], paths: Sequence[str], judge: Judge, threads: int = 3
    ) -> None:
        super().__init__("read-loop", threads)
        self._ports = list(ports)
        self._paths = list(paths)
        self._judge = judge
        self._lock = threading.Lock()
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._rounds = [0] * threads  # per thread: passes over all paths with only 200 answers

    def seen(self, outcome: str) -> int:
        with self._lock:
            return self.outcomes[outcome]

    def rounds(self) -> int:
        """The number of times that every thread has read all paths without a 503."""
        return min(self._rounds)

    def all_again(self, timeout: float = 20.0) -> None:
        """Wait until every thread has read all paths once more."""
        begun = self.rounds()
        wait_until(
            lambda: self.failures or self.wrong or self.rounds() > begun + 1,
            timeout, "every path to be answered again", 0.02,
        )  # fmt: skip
        self.check()

    def check(self) -> None:
        super().check()
        assert not self.wrong, self.wrong[:5]

    def _work(self, number: int) -> None:
        clients = [Client(port) for port in self._ports]
        try:
            # every thread reads all paths, and each thread starts with a different one
            start = number * len(self._paths) // len(self._rounds)
            paths = self._paths[start:] + self._paths[:start]
            while not self._stop.is_set():
                complete = True
                for at, path in enumerate(paths):
                    if self._stop.is_set():
                        return
                    client = clients[(at + number) % len(clients)]
                    complete = self._ask(client, path) and complete
                    self._stop.wait(_PAUSE_S)
                if complete:
                    self._rounds[number] += 1
        finally:
            for client in clients:
                client.close()

    def _ask(self, client: Client, path: str) -> bool:
        try:
            answer = _get(client, path)
        except OSError:
            with self._lock:
                self.outcomes["unreachable"] += 1
            self._stop.wait(0.02)
            return False
        wrong = self._judge(path, answer)
        outcome = str(answer.status)
        if answer.status == 503:
            outcome = f"503 {answer.code}"
            if answer.headers["Retry-After"] is None:
                wrong = wrong or "503 without Retry-After"
        with self._lock:
            self.outcomes[outcome] += 1
            if wrong and len(self.wrong) < _ENOUGH:
                self.wrong.append(f"{time.strftime('%X')} GET {path}: {wrong}: {answer}")
        return answer.status != 503


def _get(client: Client, path: str) -> Response:
    """Sends a GET again if its connection was open before and is closed without an answer, as HTTP
    clients do (RFC 9112, 9.3.1): nginx closes idle connections when it stops or is reloaded, also
    while a request arrives on them."""
    is_reused = client.is_connected
    try:
        return client.get(path)
    except (ConnectionResetError, BrokenPipeError):
        if not is_reused:
            raise
    return client.get(path)


def accepts_only(expected: Mapping[str, object]) -> Judge:
    """Accepts only 503, and for each path this value, or this code of a refusal."""

    def judge(path: str, answer: Response) -> str:
        if answer.status == 503:
            return ""
        found = answer.json()["value"] if answer.status == 200 else answer.code
        return "" if found == expected[path] else f"not {expected[path]}"

    return judge
