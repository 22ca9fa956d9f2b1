"""The descriptions of views that a client has fetched."""

from __future__ import annotations

from queryable.client.protocol.topology import parse_epoch
from queryable.client.protocol.views import View

# after a change; until then, an instance or a proxy may still send the old description
_SETTLING_TIME_S = 2.0
_MAX_EPOCHS = 100
_MAX_DEFINITIONS = 1000


class ViewCache:
    """Views by name, until a response has an epoch that this client has not seen: another version,
    another definition or another deployment may be current. Epochs of two deployments cannot be
    compared, so it does not matter which one is greater.

    Descriptions with a definition are also kept after that, for answers that name it.

    Threads may share it: nothing iterates over a collection that another thread changes. Times are
    seconds of the client's clock.
    """

    def __init__(self) -> None:
        self._views: dict[str, tuple[View, float]] = {}  # with the time until which they are valid
        self._latest: dict[str, View] = {}  # may be outdated
        self._defined: dict[tuple[str, str], View] = {}  # by name and definition
        self._epochs: tuple[str, ...] = ()  # the latest ones
        self._settled_at = float("-inf")
        self.age = 0
        """The number of times that the views were forgotten."""

    def get(self, name: str, now: float) -> View | None:
        view, valid_until = self._views.get(name, (None, 0.0))
        return view if now < valid_until else None

    def latest(self, name: str) -> View | None:
        """The latest description that was fetched or has been found for an answer. It may be
        outdated. None if it has no definition."""
        return self._latest.get(name)

    def forget_latest(self, name: str) -> None:
        self._latest.pop(name, None)

    def with_definition(self, name: str, definition: str) -> View | None:
        """The description with this definition, even if it is outdated: an instance or a proxy may
        not know of a change yet."""
        view = self._defined.get((name, definition))
        if view is not None:
            self._latest[name] = view
        return view

    def keep(self, name: str, view: View, age: int, now: float) -> None:
        """Keep a description. `age`: the age when it was requested. If the views were forgotten
        since then, the description may be outdated, so it is only kept for its definition."""
        if view.definition is not None:
            if len(self._defined) >= _MAX_DEFINITIONS:
                self._defined, self._latest = {}, {}
            self._defined[name, view.definition] = self._latest[name] = view
        views = self._views  # before the comparison: see `forget`
        if age == self.age:
            views[name] = view, self._settled_at if now < self._settled_at else float("inf")

    def note_epoch(self, epoch: str, now: float) -> None:
        """Forgets the views if the epoch of a response is a new one."""
        if epoch in self._epochs or parse_epoch(epoch) == (0, 0):
            return
        is_first = not self._epochs
        self._epochs = (*self._epochs[1 - _MAX_EPOCHS :], epoch)
        if not is_first:
            self.forget(now)

    def forget(self, now: float) -> None:
        self._settled_at = now + _SETTLING_TIME_S
        self.age += 1  # before the views: see `keep`
        self._views = {}
