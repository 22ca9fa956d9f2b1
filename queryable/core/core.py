"""How a request is asked: whom, how long, how often. What all calls share."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from queryable.core.effects import (
    Call,
    Close,
    Exchange,
    NoConnection,
    Open,
    Pause,
    Read,
    Request,
    Response,
)
from queryable.core.errors import NoAnswer, QueryableError, ServerError, Unavailable, error_of
from queryable.core.offsets import Offsets
from queryable.core.retries import RetryBudget
from queryable.core.topology import Topology, epoch_of
from queryable.core.views import View

MOST_ATTEMPTS = 8
_FIRST_PAUSE = 0.05  # s, doubled each time, up to what the answer asks for
_LONGEST_PAUSE = 2.0
# s between two looks at a map that a failure may have outdated
_BETWEEN_LOOKS = 0.1
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Settings:
    """`base`: URL of the proxy or a backend, without a slash at the end. `timeout`: s for a call
    with all its retries; of a stream the longest silence."""

    base: str
    timeout: float = 10.0
    direct: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One request; `holders`: base URLs of those who hold its key, in the order in which to ask.

    `is_safe`: asking twice does no harm.
    """

    target: str
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    holders: tuple[str, ...] = ()
    is_safe: bool = True


class Core:
    """The state of one client: what it has learnt of views and topology, and its retry budget."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.clock = clock
        self.budget = RetryBudget()
        self._views: dict[str, View] = {}
        self._topology: Topology | None = None
        self._newest = (0, 0)
        self._looked_at = float("-inf")
        self._session: ContextVar[Offsets | None] = ContextVar("queryable_session", default=None)

    # --- sessions

    @property
    def offsets(self) -> Offsets | None:
        """Of the session that is open here."""
        return self._session.get()

    @contextmanager
    def session(self) -> Iterator[Offsets]:
        """Within it, in this thread or task, reads have seen what was appended or read before."""
        offsets = Offsets()
        token = self._session.set(offsets)
        try:
            yield offsets
        finally:
            self._session.reset(token)

    # --- asking

    def ask(self, question: Question, timeout: float | None = None) -> Call[Response]:
        """The answer below 500 that there is in the end; Unavailable, ServerError."""
        answer: Response = yield from self._with_retries(question, timeout, is_stream=False)
        return answer

    def open(self, question: Question, timeout: float | None = None) -> Call[Any]:
        """The same, as a Stream of status 200; all else is raised, a 404 too."""
        stream = yield from self._with_retries(question, timeout, is_stream=True)
        if stream.status != 200:
            raise error_of(stream.status, stream.headers, (yield from read_all(stream)))
        return stream

    def _with_retries(
        self, question: Question, timeout: float | None, is_stream: bool
    ) -> Call[Any]:
        within = self.settings.timeout if timeout is None else timeout
        deadline = self.clock() + within
        bases = (*question.holders, self.settings.base)
        attempt = 0
        while True:
            request = Request(
                bases[min(attempt, len(bases) - 1)],
                question.target,
                max(deadline - self.clock(), 0.001),
                question.method,
                question.headers,
                question.body,
            )
            error: Unavailable
            try:
                answer = yield Open(request) if is_stream else Exchange(request)
            except NoConnection as e:
                error = NoAnswer(str(e), may_have_arrived=e.may_have_arrived)
                again = question.is_safe or not e.may_have_arrived
                pause = _FIRST_PAUSE * 2.0**attempt
                self._topology = None if question.holders else self._topology
            else:
                self._note_epoch(answer.headers)
                if answer.status < 500:
                    self.budget.earn()
                    return answer
                body = (yield from read_all(answer)) if is_stream else answer.body
                told = error_of(answer.status, answer.headers, body)
                if not isinstance(told, Unavailable):
                    raise told
                error = told
                # an append that is refused is not there; one that is unconfirmed may be
                again = not told.is_final and (question.is_safe or told.code in _NOTHING_DONE)
                pause = told.retry_after
            attempt += 1
            # another holder need not be waited for
            pause = 0.0 if attempt < len(bases) else min(pause, _LONGEST_PAUSE)
            pause *= random.uniform(0.75, 1.25)
            late = self.clock() + pause >= deadline
            if not again or late or attempt >= MOST_ATTEMPTS or not self.budget.spend():
                raise error
            if pause:
                yield Pause(pause)

    # --- what there is

    def view(self, name: str) -> Call[View]:
        """Asked once; NotFound."""
        known = self._views.get(name)
        if known is None:
            known = _understood(View.of, (yield from self.document(f"/views/{name}")))
            if known.partitions is not None:
                self._views[name] = known
        return known

    def document(self, target: str) -> Call[Any]:
        """What a GET gives as JSON; QueryableError for all but 200."""
        answer = yield from self.ask(Question(target))
        if answer.status != 200:
            raise error_of(answer.status, answer.headers, answer.body)
        return _understood(json.loads, answer.body)

    def topology(self) -> Call[Topology]:
        """As it is now."""
        said = yield from self.document("/processors")
        self._topology = _understood(Topology.of, said)
        self._newest = max(self._newest, self._topology.epoch)
        return self._topology

    def holders(self, view: View, key: Any) -> Call[tuple[str, ...]]:
        """Whom to ask for a key, if this client asks directly."""
        if not self.settings.direct:
            return ()
        known = self._topology
        if known is None or known.epoch < self._newest:
            now = self.clock()
            if known is None or now >= self._looked_at + _BETWEEN_LOOKS:
                self._looked_at = now
                known = yield from self.topology()
        return known.holders(view.name, view.key.record_bytes(key))

    def _note_epoch(self, headers: Mapping[str, str]) -> None:
        if self.settings.direct and (told := headers.get("topology-epoch")):
            self._newest = max(self._newest, epoch_of(told))


# codes of 503 after which no record has been written
_NOTHING_DONE = frozenset(("overloaded", "draining", "no-topology", "topic-missing"))


def _understood(read: Callable[[Any], Any], said: Any) -> Any:
    """ServerError where somebody else's server answers."""
    try:
        return read(said)
    except (KeyError, TypeError, ValueError) as e:
        if isinstance(e, QueryableError):
            raise
        raise ServerError("not-understood", f"not an answer of this API: {e!r}") from None


def read_all(stream: Any) -> Call[bytes]:
    """The rest of a stream, which is closed."""
    parts = []
    try:
        while chunk := (yield Read(stream)):
            parts.append(chunk)
    except NoConnection:
        pass  # the status has been told
    yield Close(stream)
    return b"".join(parts)


def posted(target: str, body: bytes, *, is_safe: bool) -> Question:
    return Question(target, "POST", _JSON, body, is_safe=is_safe)
