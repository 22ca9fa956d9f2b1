"""If some of the coalesced reads fail unexpectedly, only these are sent separately."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backend.http.router import Router
from backend.queries.point import ViewReads
from model.problems import Unavailable
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance
from tests.support.point_batch import groups_of
from tests.unit.backend.http.point_reads.instances import holding, place
from tests.unit.backend.http.point_reads.test_batched_keys import answers_to

KEYS = [b"key %d" % n for n in range(30)]
FAILED = 1  # the partition


class Broken:
    """A store with a bug."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def get(self, key: bytes) -> None:
        raise RuntimeError("a bug")

    get_many = get

    def close(self) -> None:
        self._of.close()


def break_store(instance: Instance) -> None:
    store_partition = instance.context.store_partitions.get("orders", FAILED)
    assert store_partition is not None
    store_partition.store = Broken(store_partition.store)  # type: ignore[assignment]


@pytest.mark.parametrize("moved", [False, True])
def test_a_group_of_keys_that_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, moved: bool
) -> None:
    with holding(tmp_path, ORDERS, dict.fromkeys(KEYS, b"1")) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        break_store(instance)
        if moved:
            instance.place(0, 0, 0, partition_counts=(2, 3))
        answers = answers_to(shell, groups_of(ORDERS, KEYS))
    answered = {key for key, answer in answers.items() if answer is not None}
    stayed = {key for key in KEYS if not moved or place(key, 2) == place(key, 3)}
    assert answered == {key for key in stayed if place(key, 3) != FAILED}
    assert {place(key, 3) for key in stayed} == ({0, FAILED} if moved else {0, FAILED, 2})
    assert "coalesced reads of view orders" in caplog.text
    assert "a bug" in caplog.text


def router_that_cannot_count(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> Router:
    """Counting the partitions of the view fails."""
    shell = Router(instance.context, None)  # type: ignore[arg-type]

    def fail(reads: ViewReads) -> None:
        raise error

    monkeypatch.setattr(ViewReads, "partition_count", fail)
    return shell


def test_a_view_whose_partitions_cannot_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(tmp_path, ORDERS, dict.fromkeys(KEYS, b"1")) as instance:
        shell = router_that_cannot_count(instance, monkeypatch, RuntimeError("a bug"))
        assert set(answers_to(shell, groups_of(ORDERS, KEYS)).values()) == {None}


def test_no_number_of_partitions_fits_a_view_that_is_in_no_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(tmp_path, ORDERS, dict.fromkeys(KEYS, b"1")) as instance:
        error = Unavailable("nobody", "no instance owns it")
        shell = router_that_cannot_count(instance, monkeypatch, error)
        groups = groups_of(ORDERS, KEYS)
        for partitions in (b"0", b"-1", b"3"):
            of_none = [
                group._replace(partition=group.partition.replace(b" 3 ", b" %b " % partitions))
                for group in groups
                if group.partition is not None
            ]
            assert len(of_none) == len(groups) == 3
            assert all(answer is None for answer in answers_to(shell, of_none).values())
