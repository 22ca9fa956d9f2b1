"""The last hour of an instance, and of a deployment."""

from __future__ import annotations

from backend.telemetry.buckets import BUCKETS, bucket_of
from backend.telemetry.history import (
    MAX_REBALANCES,
    STEP_S,
    STEPS,
    Counted,
    History,
    merged,
)
from model.topology import Epoch, Member, PlacedView, Topology
from tests.support.in_process.examples import ORDERS

START = 1_700_000_000  # a multiple of STEP_S


def counted(n: int, lag: int | None = 0, seconds: float = 0.02) -> Counted:
    buckets = [0] * BUCKETS
    buckets[bucket_of(seconds)] = 100 * n
    return Counted(lag, {("orders", 0): 30 * n, ("orders", 1): 20 * n}, 100 * n, 2 * n, buckets)


def test_a_sample_has_the_rates_of_its_step() -> None:
    history = History()
    history.record(START + 0.05, counted(1))
    assert history.document()["samples"] == []
    history.record(START + STEP_S + 0.05, counted(3, lag=7))
    [[at, lag, ingest, requests, errors, p99]] = history.document()["samples"]
    assert (at, lag, ingest, requests, errors) == (START, 7, 10.0, 20.0, 0.4)
    assert p99 is not None
    assert abs(p99 - 20) < 2


def test_closed_partitions_and_a_clock_that_goes_back_give_no_negative_rates() -> None:
    history = History()
    history.record(START, counted(3))
    history.record(START + 10, counted(3)._replace(applied={("orders", 0): 0}))
    history.record(START + 5, counted(3))
    history.record(START + 15, counted(3))
    samples = history.document()["samples"]
    assert [sample[2:] for sample in samples] == [[0.0, 0.0, 0.0, None]] * 2


def test_records_that_were_applied_in_another_role_are_not_of_the_step() -> None:
    history = History()

    def step(at: int, **applied: int) -> None:
        partitions = {("orders", int(name[1:])): n for name, n in applied.items()}
        history.record(START + at, counted(1)._replace(applied=partitions))

    step(0, p0=1000, p1=500)
    step(10, p0=1010, p2=70_000)  # p2 was a standby, and p1 is one now
    step(20, p0=1020, p2=70_100)
    step(30, p0=5, p2=70_200)  # p0 is built again
    assert [sample[2] for sample in history.document()["samples"]] == [1.0, 11.0, 10.0]


def test_the_memory_is_bounded() -> None:
    history = History()
    for n in range(STEPS + 50):
        history.record(START + n * STEP_S, counted(n))
        history.rebalanced(START + n, Topology(), topology(n, "b1"), 0)
    document = history.document()
    assert len(document["samples"]) == STEPS
    assert document["samples"][-1][0] == START + (STEPS + 48) * STEP_S
    assert len(document["rebalances"]) == MAX_REBALANCES


def topology(generation: int, *ids: str, active: tuple[int, ...] = (0, 0)) -> Topology:
    placed = PlacedView(ORDERS.description(), ORDERS.hash, active)
    members = tuple(Member(id_, "127.0.0.1", 1) for id_ in ids)
    return Topology(Epoch(1, generation), members, {"orders": placed})


def test_a_rebalance_says_who_joined_and_left_what_moved_and_how_long_it_took() -> None:
    history = History()
    before = topology(1, "b1", "b2", active=(0, 1))
    history.rebalanced(START, Topology(), before, 1.5)
    history.rebalanced(START + 1, before, topology(2, "b1", "b3", active=(0, 1)), 2.25)
    first, second = history.document()["rebalances"]
    assert (first["joined"], first["moved"], first["seconds"]) == (["b1", "b2"], {"orders": 2}, 1.5)
    assert (second["joined"], second["left"]) == (["b3"], ["b2"])
    assert (second["moved"], second["seconds"]) == ({"orders": 1}, 0.75)
    assert second["epoch"] == "1-2"


def test_the_history_of_a_deployment_is_the_same_whoever_merges_it() -> None:
    one, other = History(), History()
    for n in range(3):
        one.record(START + n * STEP_S, counted(n, lag=5))
        other.record(START + n * STEP_S, counted(n, lag=None if n == 2 else 1, seconds=0.2))
    before = topology(1, "b1")
    one.rebalanced(START, before, topology(2, "b1", "b2", active=(0, 1)), 0.5)
    other.rebalanced(START, Topology(), topology(2, "b1", "b2", active=(0, 1)), 2.0)
    # nothing moves, and each instance applies it at another moment
    same = [topology(n, "b1", "b2", active=(0, 1)) for n in (2, 3)]
    one.rebalanced(START + 1, *same, 0.5)
    other.rebalanced(START + 1.02, *same, 2.0)
    documents = {"b1": one.document(), "b2": other.document()}

    found = merged(documents)

    assert found == merged(dict(reversed(documents.items())))
    assert found["instances"] == ["b1", "b2"]
    first, second = found["samples"]
    assert first[:5] == [START, 6, 10.0, 20.0, 0.4]
    assert first[5] > 150, "the greatest p99"
    assert second[1] is None, "one does not know its lag"
    [_, rebalance] = found["rebalances"]
    assert (rebalance["joined"], rebalance["moved"]) == (["b2"], {"orders": 1})
    assert rebalance["seconds"] == 2.0


def test_a_step_that_the_clock_repeats_counts_once_per_instance() -> None:
    one, other = History(), History()
    for seconds, n in ((0, 1), (10, 2), (0, 3), (10, 5)):
        one.record(START + seconds, counted(n, lag=n))
    other.record(START, counted(1, lag=1))
    other.record(START + STEP_S, counted(2, lag=1))

    [sample] = merged({"b1": one.document(), "b2": other.document()})["samples"]

    assert sample[:5] == [START, 6, 15.0, 30.0, 0.6], "the latest of b1, and that of b2"
