"""Views, members and store metadata for tests to which the details do not matter."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from model.group.member_metadata import MemberMetadata
from model.kinds.registry import KINDS
from model.records import StoreMetadata
from model.topology import Epoch, Member
from model.views import View

HISTORIES = tuple(name for name, kind in KINDS.items() if kind.history)
"""The kinds of store in which a key may have several entries."""
ORDERS = View("orders", "orders", "/orders", "string", "json", "murmur2")


def view(name: str = "orders", **fields: str | None) -> View:
    """A view of the topic of the same name, without a short path."""
    return replace(ORDERS, **{"name": name, "topic": name, "path": None, **fields})


def metadata(of: View = ORDERS, **fields: object) -> StoreMetadata:
    plain = StoreMetadata(
        view_hash=of.hash,
        topic_id="topic-1",
        partitions=1,
        leader_epoch=-1,
        answerable=True,
        mispartitioned=0,
        dead_letters=0,
        alive_at=0,
    )
    return replace(plain, **fields)


def candidate(
    id_: str,
    views: Iterable[View] = (ORDERS,),
    active: Mapping[str, Iterable[int]] | None = None,
    positions: Mapping[str, Mapping[int, int]] | None = None,
    epoch: Epoch = Epoch(0, 0),  # noqa: B008
    started_at: int = 0,
    mispartitioned: tuple[str, ...] = (),
    partition_counts: Mapping[str, tuple[int, ...]] | None = None,
    topic_hashes: Mapping[str, int] | None = None,
    ready: Mapping[str, Iterable[int]] | None = None,
    standby: Mapping[str, Iterable[int]] | None = None,
    rack: str = "",
    drained: bool = False,
    port: int = 8081,
    host: str = "127.0.0.1",
    network: str = "",
) -> MemberMetadata:
    return MemberMetadata(
        member=Member(id_, host, port, rack),
        views=MemberMetadata.views_of(tuple(views)),
        positions=positions or {},
        active={name: tuple(store_partition) for name, store_partition in (active or {}).items()},
        epoch=epoch,
        started_at_ms=started_at,
        mispartitioned=mispartitioned,
        partition_counts=partition_counts or {},
        topic_hashes=topic_hashes or {},
        ready={name: tuple(those) for name, those in (ready or {}).items()},
        standby={name: tuple(those) for name, those in (standby or {}).items()},
        drained=drained,
        network=network,
    )
