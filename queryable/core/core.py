"""How a request is asked: whom, how long, how often. What all calls share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from queryable.core.documents import document_of
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
# s for which who did not answer is asked last
_SHUNNED = 1.0
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

    `is_safe`: asking twice does no harm. `attempts`: at most.
    """

    target: str
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    holders: tuple[str, ...] = ()
    is_safe: bool = True
    attempts: int = MOST_ATTEMPTS


class Core:
    """The state of one client: what it has learnt of views and topology, and its retry budget."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.clock = clock
        self.budget = RetryBudget()
        self._views: dict[str, View] = {}
        self._topology: Topology | None = None
        self._newest = (0, 0)
        self._newest_from = settings.base
        self._is_outdated = False
        self._failed: dict[str, float] = {}
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

    def until(self, timeout: float | None) -> float:
        """When a call ends that begins now."""
        return self.clock() + (self.settings.timeout if timeout is None else timeout)

    def ask(self, question: Question, until: float | None = None) -> Call[Response]:
        """The answer below 500 that there is in the end; Unavailable, ServerError."""
        until = self.until(None) if until is None else until
        answer: Response = yield from self._with_retries(question, until)
        return answer

    def open(self, question: Question, timeout: float | None = None) -> Call[Any]:
        """The same, as a Stream of status 200; all else is raised, a 404 too."""
        silence = self.settings.timeout if timeout is None else timeout
        stream = yield from self._with_retries(question, self.until(timeout), silence)
        if stream.status != 200:
            raise error_of(stream.status, stream.headers, (yield from read_all(stream)))
        return stream

    def _with_retries(
        self, question: Question, until: float, silence: float | None = None
    ) -> Call[Any]:
        """With `silence` a Stream that may be silent for so long."""
        bases = (*question.holders, self.settings.base)
        attempt = 0
        said: Unavailable | None = None
        while True:
            base = bases[min(attempt, len(bases) - 1)]
            # one that hangs leaves the others their share of the time
            share = max(until - self.clock(), 0.001) / max(len(bases) - attempt, 1)
            request = Request(
                base,
                question.target,
                share if silence is None else silence,
                question.method,
                question.headers,
                question.body,
            )
            error: Unavailable
            try:
                answer = yield Exchange(request) if silence is None else Open(request)
            except NoConnection as e:
                error = NoAnswer(str(e), may_have_arrived=e.may_have_arrived)
                again = question.is_safe or not e.may_have_arrived
                pause = _FIRST_PAUSE * 2.0**attempt
                if question.holders:
                    self._is_outdated = True
                    self._failed[base] = self.clock()
                # it costs nobody who is in trouble anything
                is_free = attempt + 1 < len(bases)
            else:
                self._note_epoch(answer.headers, base)
                if answer.status < 500:
                    self.budget.earn()
                    return answer
                body = answer.body if silence is None else (yield from read_all(answer))
                told = error_of(answer.status, answer.headers, body)
                if not isinstance(told, Unavailable):
                    raise told
                error = said = told
                # an append that is refused is not there; one that is unconfirmed may be
                again = not told.is_final and (question.is_safe or told.code in NOTHING_DONE)
                pause = told.retry_after
                is_free = False
            attempt += 1
            # another holder need not be waited for
            pause = 0.0 if attempt < len(bases) else min(pause, _LONGEST_PAUSE)
            pause *= random.uniform(0.75, 1.25)
            late = self.clock() + pause >= until
            is_last = not again or late or attempt >= question.attempts
            if is_last or not (is_free or self.budget.spend()):
                # what somebody has said tells more than that time ran out
                raise (said if said is not None and question.is_safe else error)
            if pause:
                yield Pause(pause)

    # --- what there is

    def view(self, name: str, until: float | None = None) -> Call[View]:
        """Asked once; NotFound."""
        known = self._views.get(name)
        if known is None:
            said = yield from self.document(f"/views/{quote(name, safe='')}", until)
            with understood():
                known = View.of(said)
            if known.partitions is not None:
                self._views[name] = known
        return known

    def document(self, target: str, until: float | None = None) -> Call[Any]:
        """What a GET gives as JSON; QueryableError for all but 200."""
        return parsed((yield from self.ask(Question(target), until)))

    def topology(self, until: float | None = None) -> Call[Topology]:
        """As it is now."""
        known = self._topology
        whom: tuple[str, ...] = ()
        if known is not None:
            # who told of a newer map has it; where this client's server is gone, others have it
            ahead = (self._newest_from,) if known.epoch < self._newest else ()
            whom = tuple(dict.fromkeys((*ahead, self.settings.base, *known.instances)))
        attempts = len(whom) or MOST_ATTEMPTS
        question = Question("/processors", holders=whom, attempts=attempts)
        said = parsed((yield from self.ask(question, until)))
        with understood():
            found = Topology.of(said)
        # another thread may have come by a newer one
        known = self._topology
        if known is None or known.epoch <= found.epoch:
            self._topology = found
            self._is_outdated = False
        self._newest = max(self._newest, found.epoch)
        return found

    def holders(self, view: View, key: Any, until: float | None = None) -> Call[tuple[str, ...]]:
        """Whom to ask for a key, if this client asks directly."""
        if not self.settings.direct:
            return ()
        known, now = self._topology, self.clock()
        if known is None:
            self._looked_at = now
            known = yield from self.topology(until)
        elif self._is_outdated or known.epoch < self._newest:
            if now >= self._looked_at + _BETWEEN_LOOKS:
                self._looked_at = now
                with suppress(Unavailable):  # the old map is better than none
                    yield from self.topology(until)
            known = self._topology or known
        found = known.holders(view.name, view.key.record_bytes(key))
        # who did not answer just now is asked last
        return tuple(sorted(found, key=lambda base: now < self._failed.get(base, -1e9) + _SHUNNED))

    def _note_epoch(self, headers: Mapping[str, str], base: str) -> None:
        if self.settings.direct and (told := headers.get("topology-epoch")):
            epoch = epoch_of(told)
            if epoch > self._newest:
                self._newest, self._newest_from = epoch, base


# codes of 503 after which no record has been written
NOTHING_DONE = frozenset(("overloaded", "draining", "no-topology", "topic-missing"))


@contextmanager
def understood() -> Iterator[None]:
    """ServerError where somebody else's server answers."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as e:
        if isinstance(e, QueryableError):
            raise
        raise ServerError("not-understood", f"not an answer of this API: {e!r}") from None


def parsed(answer: Response) -> Any:
    """What it says; QueryableError for all but 200."""
    if answer.status != 200:
        raise error_of(answer.status, answer.headers, answer.body)
    with understood():
        return document_of(answer.body)


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
