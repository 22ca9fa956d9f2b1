"""The script for wrk, run by LuaJIT, as wrk does."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from backend.telemetry.tracing import trace_of
from bench import load, records
from bench.load import Query, Workload
from bench.records import customers

_SCRIPT = Path(load.__file__).with_name("requests.lua")
_DRIVER = """
dofile(arg[1])
local asked = tonumber(arg[2])
init({unpack(arg, 3)})
for _ = 1, asked do io.write(request(), "\\n--\\n") end
io.write(tostring(delay and delay() or "none"))
"""


def _requests(asked: Workload, count: int, seed: int = 7) -> tuple[list[str], str]:
    """The requests of the script, and one think time."""
    command = ["luajit", "-", str(_SCRIPT), str(count), *asked.arguments(seed)]
    done = subprocess.run(
        command, input=_DRIVER, capture_output=True, text=True, check=True, timeout=60
    )
    *requests, delay = done.stdout.split("\n--\n")
    return requests, delay


def _numbers(requests: list[str]) -> Counter[int]:
    return Counter(int(n) for request in requests for n in re.findall(r"customer-(\d+)", request))


def test_a_read_has_the_key_of_a_record() -> None:
    [request], delay = _requests(Workload(customers(1)), 1)
    assert request.replace("\r", "") == (
        f"GET /customers/{records.key(0).decode()} HTTP/1.1\nHost: bench\n\n"
    )
    assert delay == "none"


def test_each_read_has_one_of_the_tokens(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("one\ntwo\n")
    requests, _ = _requests(Workload(customers(10), tokens=tokens), 100)
    lines = Counter(request.replace("\r", "").split("\n", 2)[2] for request in requests)
    assert set(lines) == {f"Authorization: Bearer {token}\n\n" for token in ("one", "two")}
    assert min(lines.values()) > 20


def test_a_traced_read_has_a_valid_id() -> None:
    [request], _ = _requests(Workload(customers(1), traced=True), 1)
    *_, line, empty, end = request.replace("\r", "").split("\n")
    name, _, value = line.partition(": ")
    assert trace_of([(name.encode(), value.encode())]).trace_id == "a" * 32
    assert empty == end == ""


def test_a_batch_is_json_with_its_content_length() -> None:
    [request], _ = _requests(Workload(customers(1000), batch=5), 1)
    head, _, body = request.replace("\r", "").partition("\n\n")
    assert head.startswith("POST /views/customers/batch HTTP/1.1\n")
    assert f"Content-Length: {len(body)}" in head
    assert len(json.loads(body)["keys"]) == 5


def test_a_query_has_a_random_number_in_its_path() -> None:
    query = Query("/views/a/keys?where=city%%20=%%20%%27c%02x%%27", 3, "index city", b"")
    requests, _ = _requests(Workload(customers(1), query=query), 100)
    assert {request.replace("\r", "") for request in requests} == {
        f"GET /views/a/keys?where=city%20=%20%27c0{number}%27 HTTP/1.1\nHost: bench\n\n"
        for number in range(3)
    }


def test_a_think_time_is_at_most_twice_the_mean() -> None:
    _, delay = _requests(Workload(customers(10), think_ms=4), 1)
    assert 0 <= int(delay) <= 8


def test_reads_are_uniform_by_default() -> None:
    found = _numbers(_requests(Workload(customers(10)), 20_000)[0])
    assert sorted(found) == list(range(10))
    assert all(count == pytest.approx(2_000, rel=0.15) for count in found.values())
