"""Who answers for a key: this instance, or to whom it sends the question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.ingest.batch import DeadLetter
from backend.ingest.dead_letters import DeadLetters
from backend.queries.routing import NotOwner, ReadOptions
from backend.storage.data_directory import DataDirectory
from backend.wire import scan
from model.problems import Unavailable
from model.topology import ACTIVE, STANDBY, Epoch, Member, PlacedView, Topology
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.fakes import Rec
from tests.support.in_process.instance import Instance

NEVER, STALE = ReadOptions(stale=scan.NEVER), ReadOptions(stale=scan.ALLOW)


@pytest.fixture
def instance(tmp_path: Path) -> Any:
    folder = DataDirectory(tmp_path)
    yield Instance(folder, ORDERS)
    folder.close()


def elsewhere(instance: Instance, options: ReadOptions) -> tuple[list[str], str]:
    """Whom to ask, and what is said if they do not answer."""
    with pytest.raises(NotOwner) as found:
        instance.read(b"a", options)
    return [member.id for member in found.value.members], found.value.why.code


def place(instance: Instance, active: int, standby: int | None = None) -> None:
    """Of one partition; 0 is this instance, 1 the other."""
    instance.place(active, standbys=((standby,),) if standby is not None else ((),))


def test_a_standby_answers_and_says_what_it_is(instance: Instance) -> None:
    place(instance, 1, 0)
    instance.hold(0, {b"a": b"1"}).role = STANDBY
    answer = instance.read(b"a")
    assert answer.status == 200
    assert dict(answer.headers)[b"served-by"] == b"b1; standby"
    assert instance.read(b"b").status == 404, "not there, as of its offset"
    assert elsewhere(instance, NEVER) == (["b2"], "not-active")


def test_the_active_that_is_catching_up_sends_to_its_standby(instance: Instance) -> None:
    place(instance, 0, 1)
    instance.hold(0, {b"a": b"1"}, goal=9, answerable=False)
    assert elsewhere(instance, ReadOptions()) == (["b2"], "catching-up")
    assert instance.read(b"a", STALE).status == 200
    # the active alone: nobody else will do
    assert instance.refusal(b"a", NEVER).code == "catching-up"
    place(instance, 0)
    assert instance.refusal(b"a").code == "catching-up"


def test_who_holds_nothing_asks_all_holders_or_the_active_alone(instance: Instance) -> None:
    others = (Member("b2", "127.0.0.1", 8082), Member("b3", "127.0.0.1", 8083))
    placed = PlacedView(ORDERS.description(), ORDERS.hash, (1,), standbys=((0,),))
    context = instance.context
    context.group.apply_topology(Topology(Epoch(5, 1), others, {"orders": placed}))
    assert elsewhere(instance, ReadOptions()) == (["b3", "b2"], "not-here")
    assert elsewhere(instance, NEVER) == (["b3"], "not-here")
    context.group.peers.keep(["b2", "b3"])
    context.group.peers.failed("b3")
    assert elsewhere(instance, ReadOptions()) == (["b2", "b3"], "not-here"), "it seems to be dead"
    assert elsewhere(instance, NEVER) == (["b3"], "not-here"), "nobody else will do"


def test_bounds_that_a_standby_misses_may_be_kept_by_the_active(instance: Instance) -> None:
    bounded = ReadOptions(min_offsets={0: 5})
    store_partition = instance.hold(0, {b"a": b"1"})
    place(instance, 1, 0)
    store_partition.role = STANDBY
    assert elsewhere(instance, bounded) == (["b2"], "not-up-to-offset")
    place(instance, 0, 1)
    store_partition.role = ACTIVE
    # its standby cannot be ahead: what was just written is on its way here
    assert instance.refusal(b"a", bounded).code == "not-up-to-offset"


def test_an_answer_includes_the_record_at_min_offset(instance: Instance) -> None:
    store_partition = instance.hold(0, {b"a": b"1", b"b": b"2"})
    place(instance, 0)
    position = store_partition.progress.position  # the next offset
    assert instance.refusal(b"a", ReadOptions(min_offsets={0: position})).code == "not-up-to-offset"
    assert instance.read(b"a", ReadOptions(min_offsets={0: position - 1}))


def test_one_that_warms_up_is_asked_by_nobody(instance: Instance) -> None:
    instance.place(1, standbys=((),), warming=((0, 0),))
    assert [m.id for m in instance.context.group.topology.holders_of("orders", 0)] == ["b2"]
    with pytest.raises(NotOwner) as found:
        instance.read(b"a")
    assert isinstance(found.value.why, Unavailable)


class Written(DeadLetters):
    def __init__(self) -> None:
        super().__init__({}, 0)
        self.offsets: list[int] = []

    def send(self, view: Any, partition: int, letters: Any) -> None:
        self.offsets += [letter.record.offset() for letter in letters]


def test_a_standby_writes_its_last_dead_letters_once_it_is_active(instance: Instance) -> None:
    store_partition, written = instance.hold(0), Written()
    store_partition.role = STANDBY
    letters = [DeadLetter(Rec(offset, b"a", b"no json"), "why") for offset in range(150)]
    written.take(store_partition, letters[:120])
    written.take(store_partition, letters[120:])
    assert written.offsets == []
    store_partition.role = ACTIVE
    written.take(store_partition)
    assert written.offsets == list(range(50, 150))
    written.take(store_partition)
    written.take(store_partition, letters[:1])
    assert written.offsets == [*range(50, 150), 0]


@pytest.mark.parametrize(("size", "kept"), [(100_000, 10), (1_000_000, 1), (2_000_000, 1)])
def test_a_standby_keeps_few_dead_letters_if_they_are_large(
    instance: Instance, size: int, kept: int
) -> None:
    store_partition, written = instance.hold(0), Written()
    store_partition.role = STANDBY
    for offset in range(50):
        written.take(store_partition, [DeadLetter(Rec(offset, b"a", b"x" * size), "why")])
    store_partition.role = ACTIVE
    written.take(store_partition)
    assert written.offsets == [*range(50 - kept, 50)]
