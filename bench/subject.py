"""What is measured: ours or a reference, with one value per round.

A reference may answer wrongly, or fail: that is recorded in its rows, and the run goes on. An error
of our software ends its group of rows; the rows measured so far are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from bench import batches, http_client, load
from bench.http_client import Answer
from bench.load import Measurement, Workload
from bench.report import Comparison, Row
from bench.stack import Server
from local.errors import LocalError

S = TypeVar("S")
T = TypeVar("T")


class Subject(Generic[T]):
    """The measurements of a row, or of one row for each number of connections.

    A reference that has failed is not measured again, so it has fewer rounds than ours.
    """

    def __init__(self, name: str, *, reference: bool = False) -> None:
        self.name = name
        self.reference = reference
        self.failure = ""
        self._rounds: dict[int | None, list[T]] = {}
        self._wrong: dict[int | None, list[str]] = {}

    def attempt(self, do: Callable[[], S]) -> S | None:
        """The result of `do`; None if this is a reference that fails, or has failed before. Raises
        the errors of ours."""
        if self.failure:
            return None
        try:
            return do()
        except Exception as error:
            text = str(error) if isinstance(error, LocalError) else repr(error)
            if self.reference:
                self.failure = text
                return None
            if isinstance(error, LocalError):
                raise LocalError(f"{self.name}: {text}") from error
            raise

    def measure(self, do: Callable[[], T], connections: int | None = None) -> None:
        """Measures one round."""
        found = self.attempt(do)
        if found is not None:
            self._rounds.setdefault(connections, []).append(found)

    def note(self, wrong: str, connections: int | None = None) -> None:
        """Records wrong answers; without `connections`, in each of its rows."""
        self._wrong.setdefault(connections, []).append(wrong)

    def rounds(self, connections: int | None = None) -> list[T]:
        return self._rounds.get(connections, [])

    @property
    def last(self) -> T:
        """The last measurement without connections; LocalError if the subject has failed."""
        if not self.rounds():
            raise LocalError(self.failure or f"{self.name} was not measured")
        return self.rounds()[-1]

    def of(self, get: Callable[[T], float], connections: int | None = None) -> list[float]:
        """One quantity of all rounds."""
        return [get(each) for each in self.rounds(connections)]

    def row(
        self,
        connections: int | None = None,
        *,
        beside: Iterable[Comparison] = (),
        more: Mapping[str, Callable[[T], float]] = MappingProxyType({}),
        **columns: Callable[[T], float],
    ) -> Row:
        """A row with the medians of these quantities; without quantities before the first round."""

        def medians(quantities: Mapping[str, Callable[[T], float]]) -> dict[str, Any]:
            measured = quantities if self.rounds(connections) else {}
            return {name: median(self.of(get, connections)) for name, get in measured.items()}

        wrong = [*self._wrong.get(None, [])]
        if connections is not None:
            wrong += self._wrong.get(connections, [])
        return Row(
            self.name,
            connections,
            **medians(columns),
            more=medians(more),
            beside=list(beside),
            rounds=len(self.rounds(connections)),
            reference=self.reference,
            wrong=wrong,
            failure=self.failure,
        )


class Served(Subject[Measurement]):
    """Servers under load. The first one gets the requests; the CPU time of all servers counts."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], Sequence[Server]],
        *,
        reference: bool = False,
        proxy: bool = False,
        token: str = "",
    ) -> None:
        """`launch` returns the servers. `proxy`: whether the first one is our nginx. `token`: for
        its metrics."""
        super().__init__(name, reference=reference)
        self._proxy = proxy
        self._token = token
        self.servers = tuple(self.attempt(launch) or ())

    @property
    def server(self) -> Server:
        """The first server; LocalError if the reference has failed."""
        if not self.servers or self.failure:
            raise LocalError(self.failure)
        return self.servers[0]

    def expect(self, expected: Answer, path: str) -> None:
        """Records a wrong answer if the server answers a read of `path` with another body."""
        answer = self.attempt(lambda: http_client.get(self.server.port, path, self._token))
        if not self.failure and (answer is None or answer.body != expected.body):
            self.note(f"{path}: {_shown(answer)}, not {_shown(expected)}")

    def warm_up(self, workload: Workload, seconds: int) -> None:
        """Fills caches and lets interpreters specialize."""
        self.attempt(lambda: load.run(self.server.port, workload, 16, seconds, self.note))

    def load(self, workload: Workload, connections: int, seconds: int) -> None:
        """Measures one round."""
        self.measure(lambda: self._loaded(workload, connections, seconds), connections)

    def _loaded(self, workload: Workload, connections: int, seconds: int) -> Measurement:
        port, leaders = self.server.port, tuple(server.pid for server in self.servers)
        note = partial(self.note, connections=connections)
        before = batches.read_counts(port, self._token) if self._proxy else None
        measured = load.measure(leaders, port, workload, connections, seconds, note)
        if before is None:
            return measured
        after = batches.read_counts(port, self._token)
        batch = batches.reads_per_request(measured.load.requests, before, after)
        return replace(measured, batch=batch)

    def cpu(self, connections: int) -> list[float]:
        """CPU time per request (µs) in each round."""
        return self.of(lambda each: each.cpu_us, connections)

    def loaded_row(
        self,
        connections: int,
        beside: Iterable[Comparison] = (),
        more: Mapping[str, float] = MappingProxyType({}),
    ) -> Row:
        """The row of a load. `more`: what was varied."""
        row = self.row(
            connections,
            rps=lambda each: each.load.rps,
            p50_ms=lambda each: each.load.p50_ms,
            p99_ms=lambda each: each.load.p99_ms,
            p99_9_ms=lambda each: each.load.p99_9_ms,
            cpu_us=lambda each: each.cpu_us,
            rss_mb=lambda each: each.rss_mb,
            beside=beside,
        )
        batch = [each.batch for each in self.rounds(connections) if each.batch]
        return replace(row, more={**more, **({"batch": median(batch)} if batch else {})})


def _shown(answer: Answer | None) -> str:
    return "no answer" if answer is None else f"{answer.status} {answer.body[:100]!r}"
