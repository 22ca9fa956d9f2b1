"""What an instance tells its group about itself, and when it has more to tell.

Joins what is open, the map and the data folder: a part of the composition root.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from backend.ingest.store_partitions import PartitionRegistry
from backend.instance_context import InstanceContext
from model.topology import ACTIVE, STANDBY, WARMING, Epoch, MemberMetadata
from model.views import View

_AGAIN = 10.0  # s after which the group is told the same again


class MembershipReporter:
    """This instance as a candidate for partitions; remembers what the group knows of it."""

    def __init__(
        self,
        context: InstanceContext,
        views: tuple[View, ...],
        held: PartitionRegistry,
        on_disk: Callable[[], Mapping[str, list[int]]],
        opening: Callable[[], Iterable[tuple[str, int]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_disk()`: view -> partitions that lie there; `opening()`: what is not open yet;
        `clock()`: s."""
        self._context = context
        self._views = views
        self._held = held
        self._on_disk = on_disk
        self._opening = opening
        self._clock = clock
        self._started_at = time.time_ns() // 1_000_000
        self._told_at = 0.0
        self._told_built: dict[str, int] = {}
        self._told_ready: dict[str, tuple[int, ...]] = {}

    def now(self, highest_epoch: Epoch) -> MemberMetadata:
        """What the group is told as this instance joins."""
        held = self._held.all()
        topology, me = self._context.topology, self._context.me
        on_disk = self._on_disk()
        self._told_at = self._clock()
        self._told_built = self._held.built_partitions()
        self._told_ready = {
            view.name: tuple(h.partition for h in held if h.view is view and h.progress.answerable)
            for view in self._views
        }
        doubtful = tuple(name for name, placed in topology.views.items() if placed.mis_partitioned)
        roles = {view.name: topology.roles_of(me.id, view.name) for view in self._views}
        return MemberMetadata(
            member=me,
            views=MemberMetadata.views_of(self._views),
            positions={
                # what lies on disk from before is worth more than nothing
                view.name: dict.fromkeys(on_disk.get(view.name, ()), 0)
                | {h.partition: h.progress.position for h in held if h.view is view}
                for view in self._views
            },
            active={name: tuple(of[ACTIVE]) for name, of in roles.items()},
            epoch=highest_epoch,
            started_at=self._started_at,
            mis_partitioned=self._mis_partitioned(doubtful),
            doubtful=doubtful,
            built=self._told_built,
            ready=self._told_ready,
            standby={name: tuple(of[STANDBY]) for name, of in roles.items()},
            secret=topology.secret,
        )

    def _mis_partitioned(self, doubtful: tuple[str, ...]) -> tuple[str, ...]:
        """Views with misplaced records: seen here, or seen by others in what is still read here."""
        unread = {view for view, _ in self._opening()} | {
            held.view.name
            for held in self._held.all()
            if held.progress.position < held.progress.goal
        }
        return tuple({*self._held.mis_partitioned(), *(unread & set(doubtful))})

    def is_out_of_date(self) -> bool:
        """Whether the group must hear of something, for a newer map to say it."""
        return self._has_found_out() or self._has_warmed_up() or self._sees_other_partitions()

    def _has_found_out(self) -> bool:
        """A misplaced record makes every miss of its view doubtful; a store that began under fewer
        partitions makes the place of a key so: readers of other instances must know."""
        built = self._held.built_partitions()
        misplaced = set(self._held.mis_partitioned())
        for name, placed in self._context.topology.views.items():
            mine, said = built.get(name), placed.built_partitions
            unheard = (
                mine is not None
                and said
                and (mine < said or (mine > said and self._told_built.get(name) == said))
            )
            if unheard or (name in misplaced and not placed.mis_partitioned):
                return True
        return False

    def _has_warmed_up(self) -> bool:
        """Whether this instance can be active for all partitions that it warms up for, and has not
        said so: the next map makes it active (KIP-441 probes every ten minutes for that)."""
        topology, me = self._context.topology, self._context.me
        warming = {
            (view.name, partition)
            for view in self._views
            for partition in topology.roles_of(me.id, view.name)[WARMING]
        }
        held = [self._held.get(*unit) for unit in warming]
        if not all(each is not None and each.progress.answerable for each in held):
            return False
        untold = any(partition not in self._told_ready.get(name, ()) for name, partition in warming)
        # a leader that heard of it, and found it too far behind the others
        return untold or (bool(warming) and self._clock() - self._told_at > _AGAIN)

    def _sees_other_partitions(self) -> bool:
        """The leader looks for new partitions itself: this is for one that does not."""
        topology, facts = self._context.topology, self._context.metadata_poller.latest
        return self._clock() - self._told_at > _AGAIN and any(
            (known := facts.get(view.topic)) is not None
            and (placed := topology.views.get(view.name)) is not None
            and known.partitions != placed.partitions
            for view in self._views
        )
