"""The descriptions of views that a client has fetched."""

from __future__ import annotations

from queryable.client.protocol.views import View


class ViewCache:
    """Views by name. Threads may share it: nothing iterates over a dictionary that another thread
    changes."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}
        self.age = 0
        """How often the views were forgotten."""

    def get(self, name: str) -> View | None:
        return self._views.get(name)

    def keep(self, name: str, view: View, age: int) -> None:
        """`age`: the age when the description was asked for. It may be outdated if the views were
        forgotten meanwhile, so then it is not kept."""
        views = self._views  # before the comparison: see `forget`
        if age == self.age:
            views[name] = view

    def forget(self) -> None:
        self.age += 1  # first: see `keep`
        self._views = {}
