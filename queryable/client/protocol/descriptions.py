"""Fetches the descriptions of views, and chooses the one with which an answer is decoded.

An answer names the definition of its view, and so does a description. An answer is only decoded
with the description that has the same definition: while a deployment or a version becomes current,
instances and proxies may disagree about it for a moment. So the description is fetched again until
it fits. If no description fits in time, the read fails. Instances of the previous release do not
send a definition. Then the epochs or the formats must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from urllib.parse import quote

from model.view_versions import base_of
from queryable.client.protocol.answers import Source
from queryable.client.protocol.errors import BadUse, NotFound, Unavailable
from queryable.client.protocol.requests import ApiRequest
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.retry_budget import RetryBudget
from queryable.client.protocol.transport import Call, Response, Sleep
from queryable.client.protocol.view_cache import ViewCache
from queryable.client.protocol.views import View

# doubled after each description that does not fit
_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 0.5


class Descriptions:
    """Fetches and keeps descriptions of views. Times are seconds of the client's clock."""

    def __init__(
        self,
        send: Callable[[ApiRequest, float], Call[Response]],
        sources: Callable[[], tuple[str, ...]],
        clock: Callable[[], float],
        budget: RetryBudget,
    ) -> None:
        """`send(request, deadline)`: the response, after retries. `sources()`: base URLs to ask
        before the client's own. `budget`: for repeated requests."""
        self._send = send
        self._sources = sources
        self._clock = clock
        self._budget = budget
        self._cache = ViewCache()

    def note_epoch(self, epoch: str) -> None:
        """Records the epoch of a response; every response has one."""
        self._cache.note_epoch(epoch, self._clock())

    def forget(self) -> None:
        """Forgets the descriptions of all views: another version may be current."""
        self._cache.forget(self._clock())

    def forget_latest(self, name: str) -> None:
        """Describes the view again before the next read, if it may have changed."""
        self._cache.forget_latest(name)

    def current(self, name: str, deadline: float) -> Call[View]:
        """The description, fetched once per epoch. Raises NotFound."""
        cached = self._cache.get(name, self._clock())
        return (yield from self._fetch(name, deadline)) if cached is None else cached

    def to_read(self, name: str, deadline: float) -> Call[View]:
        """Like `current`, but the description may be outdated if it has a definition. The answer
        shows whether its definition is the same. Raises NotFound."""
        cached = self._cache.get(name, self._clock()) or self._cache.latest(name)
        return (yield from self._fetch(name, deadline)) if cached is None else cached

    def find(self, view: View, headers: Mapping[str, str]) -> View | None:
        """The description of the view that gave an answer, if the client has it. None if it must
        be requested."""
        source = Source(headers)
        if source.definition is not None:
            if source.definition == view.definition:
                return view
            name = _name(view, source)
            if name != view.name:
                self._cache.forget_latest(view.name)
            if (cached := self._cache.with_definition(name, source.definition)) is not None:
                return cached
        if source.version in (None, view.version) and source.epoch in (None, view.epoch):
            # the epochs of two deployments may be the same, although this is very unlikely
            return view if None in (source.definition, view.definition) else None
        cached = self._cache.get(_name(view, source), self._clock())
        return cached if cached is not None and _describes(cached, source, view) else None

    def for_answer(self, view: View, headers: Mapping[str, str], deadline: float) -> Call[View]:
        """The description of the view that gave an answer. `view`: the description that the request
        was made with. Raises Unavailable if no description fits before the deadline."""
        if (cached := self.find(view, headers)) is not None:
            return cached
        source = Source(headers)
        pause = _FIRST_PAUSE_S
        while True:
            try:
                described = yield from self._fetch(_name(view, source), deadline)
            except NotFound:
                pass  # the instance does not know the version yet
            except Unavailable as e:
                if e.is_final:
                    raise
                raise changing(view.name, e) from e
            else:
                if _describes(described, source, view):
                    return described
            seconds = pause * random.uniform(0.75, 1.25)
            if self._clock() + seconds >= deadline or not self._budget.spend():
                raise changing(view.name)
            yield Sleep(seconds)
            pause = min(2 * pause, _MAX_PAUSE_S)
            if (cached := self.find(view, headers)) is not None:  # another thread has fetched it
                return cached

    def _fetch(self, name: str, deadline: float) -> Call[View]:
        if not name:
            raise BadUse("The name of the view is empty.")
        age = self._cache.age
        # a direct client does not need its own URL
        request = ApiRequest(f"/views/{quote(name, safe='')}", instances=self._sources())
        response = yield from self._send(request, deadline)
        description = json_of(response)
        with decoding():
            view = View.from_json(description, response.headers)
        if view.partitions is not None:
            self._cache.keep(name, view, age, self._clock())
        return view


def changing(name: str, cause: Unavailable | None = None) -> Unavailable:
    """The error of an answer that was not decoded. `cause`: why there is no description."""
    reason = "it has not been described since" if cause is None else cause.detail.rstrip(".")
    error = Unavailable(
        "view-changing",
        f"View {name} has changed, and its answer was not decoded: {reason}. Retry after a second.",
    )
    if cause is not None:
        error.retry_after = cause.retry_after
    return error


def _name(view: View, source: Source) -> str:
    """The name of the description of an answer's view. Another version may have become current."""
    if source.version not in (None, view.version):
        return f"{base_of(view.name)}@{source.version}"
    return view.name


def _describes(described: View, source: Source, view: View) -> bool:
    """Whether the description is that of the view that answered. `view`: the description of the
    request."""
    if source.definition is not None and described.definition is not None:
        return source.definition == described.definition
    if (described.epoch, described.version) == (source.epoch, source.version):
        return True
    return (described.key.name, described.value.name) == (view.key.name, view.value.name)
