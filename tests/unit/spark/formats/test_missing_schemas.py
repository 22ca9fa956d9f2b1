"""A schema that the registry does not have now, in Spark's workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from local.waiting import wait_until
from spark.formats import registry as module
from spark.formats.registry import Registry
from tests.support.in_process.avro_examples import FakeRegistry, framed, registry
from tests.unit.spark.formats.test_avro import avro, field, read, record

PLAIN = record(field("id", "int"))
RAW = framed(7, PLAIN, {"id": 1})
MISSING = ["schema 7: the registry has no schema with this id"]


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    monkeypatch.setattr(module, "_MAX_PAUSE", 0.02)
    monkeypatch.setattr(module, "_READERS", {})
    with registry() as running:
        yield running


def test_a_registry_that_is_restored(running: FakeRegistry) -> None:
    """Regression: its records were dead letters, and no rebuild of the registry brought them
    back."""
    of = avro(PLAIN, is_framed=True, registry=Registry(running.url, missing_after=60))
    found: list[object] = []
    task = threading.Thread(target=lambda: found.extend(read(of, RAW)))
    task.start()
    wait_until(lambda: len(running.asked) > 3, 10, "some attempts", 0.01)
    assert not found
    running.add(7, PLAIN)
    task.join(10)
    assert found == [{"id": 1}]


@pytest.mark.slow
def test_a_schema_that_is_missing_for_long_enough(running: FakeRegistry) -> None:
    of = avro(PLAIN, is_framed=True, registry=Registry(running.url, missing_after=0.3))
    began = time.monotonic()
    assert read(of, RAW) == MISSING
    assert time.monotonic() - began >= 0.3
    attempts = len(running.asked)
    assert attempts > 3
    assert read(of, RAW) == MISSING, "the next task"
    assert len(running.asked) == attempts + 2, "once for the view, once for its dead letters"
    running.add(7, PLAIN)
    assert read(of, RAW) == [{"id": 1}]
