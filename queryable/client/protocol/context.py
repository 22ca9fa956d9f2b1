"""The state of one client, and how it sends requests: instances, time-outs, retries."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from queryable.client.protocol.answers import Source
from queryable.client.protocol.descriptions import Descriptions, changing
from queryable.client.protocol.errors import BadUse, NoAnswer, Unavailable, error_from_response
from queryable.client.protocol.requests import MAX_ATTEMPTS, NOTHING_WRITTEN, ApiRequest
from queryable.client.protocol.responses import (
    decoding,
    depends_on_view,
    json_of,
    read_all,
    unavailable,
)
from queryable.client.protocol.retry_budget import RetryBudget
from queryable.client.protocol.session_offsets import SessionOffsets
from queryable.client.protocol.topology import Topology
from queryable.client.protocol.topology_tracker import TopologyTracker
from queryable.client.protocol.transport import (
    Call,
    CloseStream,
    Exchange,
    OpenStream,
    Request,
    Response,
    Sleep,
    TransportError,
)
from queryable.client.protocol.views import View

# doubled after each failed connection
_FIRST_BACKOFF_S = 0.05
_MAX_BACKOFF_S = 2.0
_MAX_TIMEOUT_S = 1e6  # sockets refuse very large numbers
MAX_DESCRIBED = 3
"""The maximum number of times that a request is made while each answer has another definition."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`base_url`: the URL of the proxy or a backend, without a trailing slash. `timeout`: seconds
    for a call with all its retries; for a stream, the longest time without data. `token`: returns
    the bearer token for a request. `other_urls`: the URLs of other proxies or backends of the
    deployment, which are asked if `base_url` does not answer."""

    base_url: str
    timeout: float = 10.0
    direct: bool = False
    token: Callable[[], str] | None = None
    other_urls: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.base_url, *self.other_urls)


class ClientContext:
    """The state that the calls of one client share: settings, retry budget, session, views and
    topology."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.clock = clock
        self.budget = RetryBudget()
        self.closings = 0  # the number of times that the client was closed
        self._first_url = 0  # the index of the URL that is asked first
        self._topology = TopologyTracker(settings.urls)
        self._descriptions = Descriptions(self.send, self._topology.sources, clock, self.budget)
        self._session: ContextVar[SessionOffsets | None] = ContextVar(
            "queryable_session", default=None
        )

    def require_open(self, closings: int) -> None:
        """Raises NoAnswer if the client was closed after `self.closings` had the value
        `closings`."""
        if self.closings != closings:
            raise NoAnswer("The client was closed.", may_have_arrived=False)

    # --- sessions

    @property
    def offsets(self) -> SessionOffsets | None:
        """The offsets of the session that is open in this thread or task."""
        return self._session.get()

    @contextmanager
    def session(self) -> Iterator[SessionOffsets]:
        """Opens a session in this thread or task."""
        offsets = SessionOffsets()
        token = self._session.set(offsets)
        try:
            yield offsets
        finally:
            self._session.reset(token)

    def min_offset(self, view: View) -> str | None:
        """The parameter `min_offset` that the session requires. Raises BadUse."""
        return None if self.offsets is None else self.offsets.min_offset(view.topic)

    def note_read(self, view: View, source: Source) -> None:
        """Records in the session the position that an answer included."""
        if (offsets := self.offsets) is not None:
            offsets.note_position(view.topic, source.partition, source.position)

    def note_record(self, view: View, partition: int, offset: int) -> None:
        """Records in the session the offset of a record that was written or read."""
        if (offsets := self.offsets) is not None:
            offsets.note_record(view.topic, partition, offset)

    # --- sending

    def deadline(self, timeout: float | None) -> float:
        """The time by the client's clock at which a call that starts now must end."""
        return self.clock() + self._seconds(timeout)

    def _seconds(self, timeout: float | None) -> float:
        """The time-out of a call in seconds. Raises BadUse if it is not a number (NaN)."""
        seconds = self.settings.timeout if timeout is None else timeout
        if math.isnan(seconds):
            raise BadUse(f"timeout={seconds} is invalid: it must be greater than 0.")
        return min(seconds, _MAX_TIMEOUT_S)

    def send(self, request: ApiRequest, deadline: float | None = None) -> Call[Response]:
        """The response, after retries. Its status is below 500.

        Raises Unavailable or ServerError.
        """
        deadline = self.deadline(None) if deadline is None else deadline
        response: Response = yield from self._send_with_retries(request, deadline)
        return response

    def open_stream(
        self, request: ApiRequest, timeout: float | None = None, deadline: float | None = None
    ) -> Call[Any]:
        """A Stream with status 200, after retries. Raises QueryableError for any other status.

        `timeout`: seconds for each read, and, without `deadline`, to open it.
        """
        read_timeout = self._seconds(timeout)
        deadline = self.deadline(timeout) if deadline is None else deadline
        stream = yield from self._send_with_retries(request, deadline, read_timeout)
        if stream.status != 200:
            body = yield from read_all(stream)
            raise error_from_response(stream.status, stream.headers, body)
        return stream

    def _send_with_retries(
        self, request: ApiRequest, deadline: float, read_timeout: float | None = None
    ) -> Call[Any]:
        """A Response; with `read_timeout` a Stream."""
        own = self._own_urls(request)
        urls = (*filter(self.may_ask, request.instances), *own)
        attempt = 0
        failures: dict[str, tuple[bool, int]] = {}  # own URL ► (gave no answer, attempt)
        reported: Unavailable | None = None
        reason: str | None = None
        may_have_arrived = False
        while True:
            # After all URLs, the client's own are asked again, one after another. Those that
            # answered come first.
            is_repeat = attempt >= len(urls)
            url = min(failures, key=failures.__getitem__) if is_repeat else urls[attempt]
            # each instance gets a share of the time, so one that hangs does not use all of it; the
            # last one leaves a share for a retry at an instance that answered
            answered = request.is_idempotent and not all(silent for silent, _ in failures.values())
            remaining = max(deadline - self.clock(), 0.001)
            share = remaining / max(len(urls) - attempt + answered, 1)
            # an instance that received a request which must not be sent twice has all the time to
            # answer
            timeout = share if request.is_idempotent else remaining
            wire = Request(
                url,
                request.target,
                timeout,
                request.method,
                self._with_token(request.headers),
                request.body,
                None if request.is_idempotent else share,
                read_timeout,
            )
            error: Unavailable
            try:
                response = yield Exchange(wire) if read_timeout is None else OpenStream(wire)
            except TransportError as e:
                may_have_arrived = may_have_arrived or e.may_have_arrived
                if reason is None or not e.timed_out:
                    reason = str(e)  # it has more information than a later time-out
                error = NoAnswer(reason, may_have_arrived=may_have_arrived)
                can_retry = request.is_idempotent or not e.may_have_arrived
                backoff = min(_FIRST_BACKOFF_S * 2.0**attempt, _MAX_BACKOFF_S)
                backoff *= random.uniform(0.75, 1.25)
                if url in own:
                    self._note_unreachable(url)
                    failures[url] = (True, attempt)
                    if e.is_final:
                        del failures[url]
                if attempt + 1 >= len(urls) and not failures:
                    can_retry = False
                if request.instances:
                    self._topology.note_failure(url, self.clock())
                # a first request to the next instance adds no load to the one that failed
                needs_budget = attempt + 1 >= len(urls)
            else:
                self._descriptions.note_epoch(response.headers.get("topology-epoch", ""))
                if self.settings.direct:
                    self._topology.note_response(response.headers, url)
                if response.status < 500:
                    self.budget.earn()
                    return response
                if url in own:
                    failures[url] = (False, attempt)
                body = response.body if read_timeout is None else (yield from read_all(response))
                error = reported = unavailable(response, body)
                can_retry = not error.is_final and (
                    request.is_idempotent or error.code in NOTHING_WRITTEN
                )
                backoff = error.retry_after * random.uniform(1.0, 1.25)
                needs_budget = True
            attempt += 1
            # no backoff before a request to the next instance
            backoff = 0.0 if attempt < len(urls) else backoff
            is_late = self.clock() + backoff >= deadline
            is_last = not can_retry or is_late or attempt >= request.max_attempts
            if is_last or (needs_budget and not self.budget.spend()):
                # an error that an instance reported has more information than a later time-out
                raise reported if reported is not None and request.is_idempotent else error
            if backoff:
                yield Sleep(backoff)

    def _own_urls(self, request: ApiRequest) -> tuple[str, ...]:
        """The client's own URLs, in the order to ask them; only the first if the request must be
        sent only once."""
        urls = self.settings.urls
        if request.max_attempts == 1:
            return urls[:1]
        return urls[self._first_url :] + urls[: self._first_url]

    def _note_unreachable(self, url: str) -> None:
        """Lets the next request begin with the URL after this one."""
        urls = self.settings.urls
        if urls[self._first_url] == url:  # else another thread has noted it
            self._first_url = (self._first_url + 1) % len(urls)

    def may_ask(self, instance: str) -> bool:
        """Whether a request may be sent to this URL of the topology. If the user sends the token to
        an https URL, it is never sent in clear text just because a topology says so."""
        is_https = any(url.startswith("https:") for url in self.settings.urls)
        needs_tls = self.settings.token is not None and is_https
        return not needs_tls or instance.startswith("https:")

    def _with_token(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The headers with the token. Raises BadUse if there is no valid token now."""
        if self.settings.token is None:
            return headers
        return {**(headers or {}), "authorization": f"Bearer {self.settings.token()}"}

    def get_json(self, target: str, deadline: float | None = None) -> Call[Any]:
        """The JSON document at `target`. Raises QueryableError unless the status is 200."""
        return json_of((yield from self.send(ApiRequest(target), deadline)))

    # --- views and topology

    def view(self, name: str, deadline: float | None = None) -> Call[View]:
        """A view's description, fetched once per epoch. In a session, the description of the
        version with which the session began. Raises NotFound."""
        deadline = self.deadline(None) if deadline is None else deadline
        session = self.offsets
        if session is not None and name in session.views:
            return session.views[name]
        view = yield from self._descriptions.current(name, deadline)
        if session is not None and view.version is not None and "@" not in view.name:
            # offsets of one version mean nothing in another one
            view = session.views[name] = replace(view, name=f"{view.name}@{view.version}")
        return view

    def view_to_read(self, name: str, deadline: float) -> Call[View]:
        """Like `view`, for a request whose answer names its definition: see `answering`. So the
        description may be outdated. But a session begins with the current version."""
        session = self.offsets
        if session is not None and name in session.views:
            return session.views[name]
        view = yield from self._descriptions.to_read(name, deadline)
        if session is None or view.version is None:
            return view
        return (yield from self.view(name, deadline))

    def answering(self, view: View, headers: Mapping[str, str], deadline: float) -> Call[View]:
        """The description to decode an answer with. Since `view` was described, another version
        may have become current, or another deployment, whose definition of the view may differ.
        Raises Unavailable if there is no description of the answer."""
        return (yield from self._descriptions.for_answer(view, headers, deadline))

    def read(
        self,
        view: View,
        request_of: Callable[[View], ApiRequest],
        deadline: float,
        attempts: int = MAX_DESCRIBED,
    ) -> Call[tuple[Response, View]]:
        """The response, and the view to decode it with. `view`: the description for the first
        request. If the view that answers has keys of another format, the request means something
        else there, and so another request is made. Raises BadUse if it cannot be made."""
        for _ in range(attempts):
            request = request_of(view)
            try:
                response = yield from self.send(request, deadline)
            except Unavailable:
                if self.offsets is not None:  # they may be those of another deployment
                    self._descriptions.forget_latest(view.name)
                raise
            if not depends_on_view(response):
                return response, view
            answering = yield from self.answering(view, response.headers, deadline)
            if answering is view:
                return response, view
            # other reads of the session may have changed its offsets, so both are made now
            before, repeated = request_of(view), request_of(replace(answering, name=view.name))
            if (repeated.target, repeated.body) == (before.target, before.body):
                return response, answering
            view = answering
        raise changing(view.name)

    def open_described(
        self,
        request: ApiRequest,
        view: View,
        timeout: float | None = None,
        deadline: float | None = None,
    ) -> Call[tuple[Any, View]]:
        """`open_stream`, and the view to decode the stream with. All connections of the client may
        have streams, so the view is described while this one is closed."""
        for _ in range(MAX_DESCRIBED):
            stream = yield from self.open_stream(request, timeout, deadline)
            described = self._descriptions.find(view, stream.headers)
            if described is not None:
                return stream, described
            yield CloseStream(stream)
            yield from self.answering(view, stream.headers, self.deadline(None))
        raise changing(view.name)

    def forget_views(self) -> None:
        """Forgets the descriptions of all views: another version may be current."""
        self._descriptions.forget()

    def leave_version(self, name: str) -> bool:
        """Forgets the descriptions of all views, because another version of this view may be
        current. Returns False if the session has read or written the view, and so stays with its
        version."""
        if self.offsets is not None and not self.offsets.leave_version(name):
            return False
        self.forget_views()
        return True

    def topology(self, deadline: float | None = None) -> Call[Topology]:
        """Fetches the current topology."""
        sources = self._topology.sources()
        request = ApiRequest(
            "/processors", instances=sources, max_attempts=len(sources) or MAX_ATTEMPTS
        )
        document: Mapping[str, Any] = json_of((yield from self.send(request, deadline)))
        with decoding():
            topology = Topology.from_json(document)
        self._topology.update(topology)
        return topology

    def replicas(self, view: View, key: Any, deadline: float) -> Call[tuple[str, ...]]:
        """Base URLs of the instances to ask for a key, in order; empty unless the client is
        `direct`."""
        if not self.settings.direct:
            return ()
        now = self.clock()
        if self._topology.needs_fetch(now):
            try:
                yield from self.topology(deadline)
            except Unavailable:
                # an old topology is better than none: instances forward requests for partitions
                # that they do not have
                if self._topology.current is None:
                    raise
        current = self._topology.current
        if current is None:  # there is no topology of the current deployment yet
            return ()
        replicas = current.replicas(view.name, view.key.record_bytes(key))
        return self._topology.by_health(replicas, now)
