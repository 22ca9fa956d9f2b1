"""Reads a record again, without a broker; tests/system has a test with one."""

from __future__ import annotations

import pytest

from backend.ingest.record_reader import RecordReader
from local.ports import free_ports
from model.problems import Unavailable


@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_named_in_time() -> None:
    [port] = free_ports(1)
    reader = RecordReader({"bootstrap.servers": f"127.0.0.1:{port}"}, timeout=0.5)
    with pytest.raises(Unavailable) as raised:
        reader.headers("orders", 0, 7, 1_400_000_000_000)
    assert raised.value.code == "broker-unreachable"
