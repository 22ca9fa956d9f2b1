"""Waiting for instances that are busy or still catching up."""

from __future__ import annotations

import logging
import threading
from functools import partial
from math import inf
from typing import Any

import pytest

from backend.ingest.lifecycle import snapshot_fetcher
from local.waiting import wait_until
from tests.support.in_process.examples import ORDERS
from tests.unit.backend.cluster.snapshots.sources import (
    METADATA,
    AddSource,
    Setup,
    check_installed,
    whole,
)


@pytest.mark.parametrize("max_wait", [600.0, 0.0])
def test_a_source_that_is_busy_is_asked_again(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch, max_wait: float
) -> None:
    """Regression: the log was read, which may lack deletes of moved keys."""
    monkeypatch.setattr(snapshot_fetcher, "_ASK_AGAIN_AFTER", 0.01)
    monkeypatch.setitem(snapshot_fetcher._MAX_WAIT, "overloaded", max_wait)
    busy = add_source(whole)
    busy.code, busy.refusals = "overloaded", 3
    setup.wait()  # also as the active
    assert busy.asked == [0] * (4 if max_wait else 1)
    assert setup.left() == (["0"] if max_wait else [])


@pytest.mark.slow
def test_a_standby_waits_for_an_instance_that_is_catching_up(
    setup: Setup, add_source: AddSource, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise two new instances would both replay all partitions that they share."""
    caplog.set_level(logging.INFO)
    source = add_source(whole)
    source.refusals = inf
    standby = partial(setup.snapshot_fetcher.has_ended, ORDERS, 0, METADATA, may_wait=True)
    assert not standby()
    wait_until(lambda: len(source.asked) >= 2, 20, "a second request", 0.01)
    assert not standby()
    assert setup.snapshot_fetcher.under_way()["orders", 0].is_waiting
    source.refusals = 0
    wait_until(standby, 20, "the end of the transfer", 0.01)
    check_installed(setup)
    assert caplog.text.count("cannot send a snapshot yet: catching-up") == 1
    assert "WARNING" not in caplog.text


@pytest.mark.usefixtures("one_thread")
@pytest.mark.slow
def test_the_partition_that_will_be_complete_first_is_asked_for_first(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = add_source(whole)
    source.refusals = inf
    source.seconds_left = {0: 30.0, 1: 0.2}
    monkeypatch.setattr(snapshot_fetcher, "_ASK_AT_LATEST_AFTER", 5.0)
    for partition in (0, 1):
        assert not setup.snapshot_fetcher.has_ended(ORDERS, partition, METADATA, may_wait=True)
    wait_until(lambda: source.asked.count(0) >= 2, 20, "a second request for partition 0", 0.01)
    assert source.asked[:5] == [0, 1, 1, 1, 1]


def test_an_instance_that_is_busy_is_asked_again_although_another_one_will_take_long(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_fetcher, "_ASK_AT_LATEST_AFTER", 60.0)
    busy, behind = add_source(whole), add_source(whole)
    busy.code, busy.refusals, behind.refusals = "overloaded", 2, inf
    behind.seconds_left = {0: 200.0}
    standby = partial(setup.snapshot_fetcher.has_ended, ORDERS, 0, METADATA, may_wait=True)
    wait_until(standby, 20, "the end of the transfer", 0.01)
    check_installed(setup)


@pytest.mark.parametrize(
    ("seconds_left", "others", "seconds"),
    [
        (None, 0, 0.1),
        (None, 50, 2.1),
        (0.0, 0, 0.04),
        (0.6, 0, 0.3),
        (0.6, 20, 0.44),
        (1e9, 0, 1.0),
        (1e9, 300, 6.04),
    ],
)
def test_instances_are_asked_in_half_of_the_time_that_is_left(
    seconds_left: float | None, others: int, seconds: float
) -> None:
    assert snapshot_fetcher._pause(seconds_left, others) == pytest.approx(seconds)


def test_an_active_does_not_wait(setup: Setup, add_source: AddSource) -> None:
    source = add_source(whole)
    source.refusals = inf
    setup.wait()
    assert source.asked == [0]
    assert setup.left() == []


def test_a_standby_that_becomes_active_waits_no_longer(setup: Setup, add_source: AddSource) -> None:
    source = add_source(whole)
    source.refusals = inf
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA, may_wait=True)
    wait_until(lambda: len(source.asked) >= 2, 20, "a second request", 0.01)
    setup.wait()  # as the active
    assert setup.left() == []


@pytest.mark.slow
def test_a_standby_does_not_wait_for_ever(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(snapshot_fetcher._MAX_WAIT, "catching-up", 0.6)
    source = add_source(whole)
    source.refusals = inf
    standby = partial(setup.snapshot_fetcher.has_ended, ORDERS, 0, METADATA, may_wait=True)
    assert not standby()
    wait_until(standby, 20, "the end of the wait", 0.01)
    assert len(source.asked) >= 2
    assert setup.left() == []


@pytest.mark.usefixtures("one_thread")
@pytest.mark.slow
def test_the_time_in_the_queue_is_no_waiting(
    setup: Setup, add_source: AddSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: behind long transfers, a partition was not asked for again."""
    monkeypatch.setitem(snapshot_fetcher._MAX_WAIT, "overloaded", 0.9)
    proceed = threading.Event()

    def slow(send: Any, stream: bytes) -> None:
        send(stream[:10])
        for _ in range(6):
            proceed.wait(0.2)
            send(stream[10:11])
        raise OSError

    source = add_source(slow)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 0, METADATA)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 1, METADATA)
    wait_until(lambda: source.asked, 20, "the first transfer", 0.01)
    source.code, source.refusals = "overloaded", inf
    setup.wait(partition=1)
    assert source.asked.count(1) >= 2


@pytest.mark.usefixtures("one_thread")
def test_a_partition_that_was_assigned_again_while_it_waited_is_copied_once(
    setup: Setup, add_source: AddSource
) -> None:
    source = add_source(whole)
    source.refusals = inf
    standby = partial(setup.snapshot_fetcher.has_ended, ORDERS, 0, METADATA, may_wait=True)
    assert not standby()
    wait_until(lambda: source.asked, 20, "a request", 0.01)
    setup.snapshot_fetcher.keep(set())
    source.refusals = 0
    asked_before = len(source.asked)
    assert not standby()
    wait_until(standby, 20, "the end of the transfer", 0.01)
    [waiting] = setup.snapshot_fetcher._waiting
    wait_until(lambda: not waiting, 20, "the turn of the first assignment's request", 0.01)
    assert not setup.snapshot_fetcher.has_ended(ORDERS, 1, METADATA)
    setup.wait(partition=1)
    assert source.asked[asked_before:] == [0, 1]
    check_installed(setup, ["0", "1"])
