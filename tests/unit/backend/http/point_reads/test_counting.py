"""An error in counting a read is only logged: the read is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.http.router import Router
from backend.telemetry import latencies as telemetry
from backend.telemetry.latencies import Labels, Latencies, TurnReads
from backend.telemetry.rate_limited_log import RateLimitedLog
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.instance import Instance
from tests.support.in_process.world import World
from tests.support.point_batch import groups_of
from tests.unit.backend.http.point_reads.forwards import KEYS as NAMES
from tests.unit.backend.http.point_reads.forwards import forwarded
from tests.unit.backend.http.point_reads.instances import holding
from tests.unit.backend.http.point_reads.test_batched_keys import answers_to
from tests.unit.backend.http.point_reads.test_plain_forwards import forward_now

KEYS = [b"key%d" % n for n in range(30)]


@pytest.fixture(autouse=True)
def fresh_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "log", RateLimitedLog(logging.getLogger(telemetry.__name__)))


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with holding(tmp_path, ORDERS, dict.fromkeys(KEYS, b"1")) as made:
        yield made


def fail(*_: Any) -> Any:
    raise RuntimeError("a bug")


def assert_logged(caplog: pytest.LogCaptureFixture) -> None:
    [record] = caplog.records
    assert "not counted" in record.getMessage()
    assert "a bug" in record.getMessage()


@pytest.mark.parametrize("more", [[], [b"nobody"]], ids=["found", "and missing"])
def test_coalesced_reads_of_keys(
    instance: Instance, caplog: pytest.LogCaptureFixture, more: list[bytes]
) -> None:
    """Regression: the whole request was 500, or its keys were sent again."""
    shell = Router(instance.context, None)  # type: ignore[arg-type]
    instance.context.telemetry.latencies.series = fail  # type: ignore[method-assign]
    answers = answers_to(shell, groups_of(ORDERS, [*KEYS, *more]))
    statuses = {key: None if answer is None else answer.status for key, answer in answers.items()}
    assert statuses == dict.fromkeys(KEYS, 200) | dict.fromkeys(more, 404)
    assert_logged(caplog)


def test_a_plain_read(instance: Instance, caplog: pytest.LogCaptureFixture) -> None:
    shell = Router(instance.context, None)  # type: ignore[arg-type]
    instance.context.telemetry.latencies.series = fail  # type: ignore[method-assign]
    answer = shell.fast_path.answer_now(b"/orders/key1")
    assert answer is not None
    assert answer.status == 200
    assert_logged(caplog)


def test_a_forwarded_read(
    made: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: the client waited for ever."""
    key = next(key for key in NAMES if forwarded(made, [key]))
    monkeypatch.setattr(made.instances["b1"].context.telemetry.latencies, "observe", fail)
    [answer] = forward_now(made, [key])
    assert answer is not None
    assert answer.status == 200
    assert_logged(caplog)


def test_a_request_that_the_router_answers(
    made: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(made.instances["b1"].context.telemetry.latencies, "observe", fail)
    assert made.ask("keys/missing").status == 404
    assert_logged(caplog)


def test_the_other_reads_of_a_turn_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Regression: those that could not be counted were kept, and so were all later ones."""
    latencies = Latencies()
    series = latencies.series(Labels("key", "orders", "active", 200))

    async def turns() -> None:
        turn = TurnReads(latencies)
        turn.start(asyncio.get_running_loop())
        for each in (None, series, series):
            turn.begin()
            turn.note(each)  # type: ignore[arg-type]
            turn.note(series)
            await asyncio.sleep(0)

    asyncio.run(turns())
    assert sum(series.counts) == 5
    [record] = caplog.records
    assert "not counted" in record.getMessage()
