"""The metadata that an instance sends to its group's leader, and when it must send it again.

Combines open store partitions, topology and data folder: part of the composition root.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from backend.ingest.store_partitions import PartitionRegistry
from backend.instance_context import InstanceContext
from model.topology import ACTIVE, STANDBY, WARMING, Epoch, MemberMetadata
from model.views import View

_AGAIN = 10.0  # s after which the same report is repeated


class MembershipReporter:
    """Builds this instance's metadata, and remembers the last report."""

    def __init__(
        self,
        context: InstanceContext,
        views: tuple[View, ...],
        registry: PartitionRegistry,
        on_disk: Callable[[], Mapping[str, list[int]]],
        opening: Callable[[], Iterable[tuple[str, int]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_disk()`: view -> partitions with a store on disk. `opening()`: assigned store
        partitions that are not open yet. `clock()`: s."""
        self._context = context
        self._views = views
        self._registry = registry
        self._on_disk = on_disk
        self._opening = opening
        self._clock = clock
        self._started_at = time.time_ns() // 1_000_000
        self._reported_at = 0.0
        self._reported_built: dict[str, int] = {}
        self._reported_ready: dict[str, tuple[int, ...]] = {}

    def now(self, highest_epoch: Epoch) -> MemberMetadata:
        """The metadata for joining the group now."""
        open_partitions = self._registry.all()
        topology, me = self._context.topology, self._context.me
        on_disk = self._on_disk()
        self._reported_at = self._clock()
        self._reported_built = self._registry.built_partitions()
        self._reported_ready = {
            view.name: tuple(
                each.partition
                for each in open_partitions
                if each.view is view and each.progress.answerable
            )
            for view in self._views
        }
        map_mispartitioned = tuple(
            name for name, placed in topology.views.items() if placed.mispartitioned
        )
        roles = {view.name: topology.roles_of(me.id, view.name) for view in self._views}
        return MemberMetadata(
            member=me,
            views=MemberMetadata.views_of(self._views),
            positions={
                # an unopened store on disk is better than none
                view.name: dict.fromkeys(on_disk.get(view.name, ()), 0)
                | {
                    each.partition: each.progress.position
                    for each in open_partitions
                    if each.view is view
                }
                for view in self._views
            },
            active={name: tuple(of[ACTIVE]) for name, of in roles.items()},
            epoch=highest_epoch,
            started_at=self._started_at,
            mispartitioned=self._mispartitioned(map_mispartitioned),
            map_mispartitioned=map_mispartitioned,
            built=self._reported_built,
            ready=self._reported_ready,
            standby={name: tuple(of[STANDBY]) for name, of in roles.items()},
            secret=topology.secret,
        )

    def _mispartitioned(self, map_mispartitioned: tuple[str, ...]) -> tuple[str, ...]:
        """Views with mispartitioned records: found here, or marked in the topology while a store
        partition here has not caught up yet."""
        unread = {view for view, _ in self._opening()} | {
            each.view.name
            for each in self._registry.all()
            if each.progress.position < each.progress.target_offset
        }
        return tuple({*self._registry.mispartitioned_views(), *(unread & set(map_mispartitioned))})

    def is_out_of_date(self) -> bool:
        """Whether the leader needs a new report, for a newer topology."""
        return self._has_found_out() or self._has_warmed_up() or self._sees_other_partitions()

    def _has_found_out(self) -> bool:
        """Mispartitioned records, or a store started with fewer partitions: both change how other
        instances must read the view."""
        built = self._registry.built_partitions()
        mispartitioned = set(self._registry.mispartitioned_views())
        for name, placed in self._context.topology.views.items():
            mine, said = built.get(name), placed.built_partitions
            unheard = (
                mine is not None
                and said
                and (mine < said or (mine > said and self._reported_built.get(name) == said))
            )
            if unheard or (name in mispartitioned and not placed.mispartitioned):
                return True
        return False

    def _has_warmed_up(self) -> bool:
        """Whether all warming partitions can become active now and this is not reported yet: the
        next topology does it (KIP-441 uses a probing rebalance every ten minutes)."""
        topology, me = self._context.topology, self._context.me
        warming = {
            (view.name, partition)
            for view in self._views
            for partition in topology.roles_of(me.id, view.name)[WARMING]
        }
        found = [self._registry.get(*unit) for unit in warming]
        if not all(each is not None and each.progress.answerable for each in found):
            return False
        is_unreported = any(
            partition not in self._reported_ready.get(name, ()) for name, partition in warming
        )
        # repeat the report if the leader found this instance too far behind
        return is_unreported or (bool(warming) and self._clock() - self._reported_at > _AGAIN)

    def _sees_other_partitions(self) -> bool:
        """Whether partition counts have changed. Normally the leader detects this itself."""
        topology, topic_metadata = self._context.topology, self._context.metadata_poller.latest
        return self._clock() - self._reported_at > _AGAIN and any(
            (known := topic_metadata.get(view.topic)) is not None
            and (placed := topology.views.get(view.name)) is not None
            and known.partitions != placed.partitions
            for view in self._views
        )
