"""Stand-ins for what needs a broker: facts that never change, a member and an ingest that idle."""

from collections.abc import Iterable
from typing import Any, cast

from backend.api.serving import Serving
from backend.core.views import View
from backend.ingest.facts import TopicFacts
from backend.ingest.held import Held
from backend.settings import Settings
from tests.backend.unit.examples import ORDERS


class FakeWatcher:
    """Has the facts that a test puts into `latest`."""

    alive = True

    def __init__(self) -> None:
        self.latest: dict[str, TopicFacts] = {}

    def facts(self, topic: str) -> TopicFacts | None:
        return self.latest.get(topic)


class FakeIngestor:
    alive = True
    failure = None
    rebuilds = 0
    progress_at = float("inf")

    def opening(self) -> list[tuple[str, int]]:
        return []


class FakeMember:
    alive = True


def serving(views: Iterable[View] = (ORDERS,), **settings: Any) -> Serving:
    """An instance "b1" with nothing open and no map yet."""
    views = tuple(views)
    return Serving(
        settings=Settings(**{"instance_id": "b1", **settings}),
        views={view.name: view for view in views},
        held=Held(views),
        watcher=cast(Any, FakeWatcher()),
        ingestor=cast(Any, FakeIngestor()),
        member=cast(Any, FakeMember()),
    )
