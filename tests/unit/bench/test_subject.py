"""Ours and references that answer wrongly, or fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bench import records
from bench.http_client import Answer
from bench.load import Workload
from bench.report import compare
from bench.rows.launch import check
from bench.stack import Server
from bench.subject import Served, Subject
from local.errors import LocalError

_REPORT = (
    '{"requests":1000,"duration_us":1000000,"refused":%d,"unanswered":0,'
    '"p50_us":100,"p90_us":200,"p99_us":300,"p99_9_us":400}'
)
_READS = Workload("/customers", 10)


def _fail() -> float:
    raise LocalError("it ended")


def test_rounds_become_medians() -> None:
    ours = Subject[float]("ours")
    assert ours.row(rps=float).rounds == 0
    for value in (3.0, 1.0, 2.0):
        ours.measure(lambda value=value: value)  # type: ignore[misc]
    row = ours.row(rps=float, more={"twice": lambda each: 2 * each})
    assert (row.rps, row.more, row.rounds) == (2.0, {"twice": 4.0}, 3)
    assert not row.reference
    assert row.faults == []


def test_a_reference_that_fails_keeps_its_rounds_and_is_not_measured_again() -> None:
    ours, reference = Subject[float]("ours"), Subject[float]("theirs", reference=True)
    reference.measure(lambda: 4.0)
    for _ in range(2):
        ours.measure(lambda: 2.0)
    reference.measure(_fail)
    reference.measure(lambda: pytest.fail("it has failed"))
    row = reference.row(rps=float)
    assert (row.rps, row.rounds, row.failure) == (4.0, 1, "it ended")
    assert row.faults == ["the reference failed: it ended"]
    [beside] = compare("rate", "/s", ours.of(float), "theirs", reference.of(float))
    assert beside.ratio is not None
    assert beside.ratio.median == 0.5
    assert reference.last == 4.0


def test_errors_of_a_reference_are_recorded_whatever_they_are() -> None:
    reference = Subject[float]("theirs", reference=True)
    reference.measure(lambda: float("x"))
    assert "could not convert" in reference.row(16).failure
    with pytest.raises(LocalError, match="could not convert"):
        _ = reference.last


def test_an_error_of_ours_is_raised_with_its_name() -> None:
    ours = Subject[float]("proxy-token")
    with pytest.raises(LocalError, match="proxy-token: it ended"):
        ours.measure(_fail)
    with pytest.raises(ValueError, match="could not convert"):
        ours.measure(lambda: float("x"))


def test_wrong_answers_belong_to_a_number_of_connections_or_to_all() -> None:
    subject = Subject[float]("theirs", reference=True)
    subject.note("at launch")
    subject.note("under load", 16)
    assert subject.row(16).wrong == ["at launch", "under load"]
    assert subject.row(64).wrong == subject.row().wrong == ["at launch"]


@pytest.fixture
def wrk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A load generator whose report is the content of the file; test_requests.py has the script of
    the real one."""
    report, program = tmp_path / "report", tmp_path / "wrk"
    program.write_text(f'#!/bin/sh\ncat "{report}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return report


@pytest.mark.parametrize("reference", [True, False])
def test_a_load_with_wrong_answers_is_kept_with_their_number(wrk: Path, reference: bool) -> None:
    servers = [Server("any", os.getpid(), 1, reference)]
    subject = Served("redis-asgi", lambda: servers, reference=reference)
    wrk.write_text(_REPORT % 0)
    subject.load(_READS, 16, 1)
    wrk.write_text(_REPORT % 3)
    subject.load(_READS, 64, 1)
    right, wrong = subject.loaded_row(16), subject.loaded_row(64)
    assert (right.rps, right.p50_ms, right.faults) == (1000.0, 0.1, [])
    assert (wrong.rps, wrong.p50_ms, wrong.rounds) == (1000.0, 0.1, 1)
    assert wrong.wrong == ["of 1,000 requests, 3 were answered with an error and 0 not at all"]
    assert wrong.reference is reference


def test_a_load_without_any_answer_is_an_error_of_ours(wrk: Path) -> None:
    wrk.write_text((_REPORT % 0).replace('"requests":1000', '"requests":0'))
    servers = [Server("any", os.getpid(), 1)]
    with pytest.raises(LocalError, match="backend: port 1 answered no request"):
        Served("backend", lambda: servers).load(_READS, 16, 1)
    reference = Served("redis-asgi", lambda: servers, reference=True)
    reference.load(_READS, 16, 1)
    assert "answered no request" in reference.loaded_row(16).failure


def test_a_reference_that_does_not_start_has_rows_without_numbers() -> None:
    def launch() -> list[Server]:
        raise LocalError("timed out after 60 s")

    subject = Served("redis-asgi", launch, reference=True)
    behind = Served("nginx", lambda: [subject.server], reference=True)
    for each in (subject, behind):
        each.expect(Answer(200, [], b"{}"), "/customers/1")
        each.warm_up(_READS, 1)
        each.load(_READS, 16, 1)
        row = each.loaded_row(16)
        assert (row.rps, row.rounds, row.more, row.wrong) == (None, 0, {}, [])
        assert row.failure == "timed out after 60 s"


class _Reads(BaseHTTPRequestHandler):
    """Answers reads of records like a backend, but not of the three greatest numbers."""

    def do_GET(self) -> None:
        number = int(self.path.rpartition("-")[2])
        key, value = records.key(number), records.value(number)
        body = b'{"key":"%b","value":%b}' % (key, value) if number < 7 else b'"unknown"'
        self.send_response(200 if number < 7 else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _application() -> Iterator[Server]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Reads)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Server("streams-1", os.getpid(), server.server_port, reference=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_reference_with_three_wrong_answers_is_measured_and_has_them_beside_its_row() -> None:
    theirs = Subject[float]("streams-launch", reference=True)

    def launch(application: Server) -> float:
        check(application, range(10), theirs.note)
        return 4.5

    with _application() as application:
        theirs.measure(lambda: launch(application))
        served = Served("streams-direct", lambda: [application], reference=True)
        body = b'{"key":"%b","value":%b}' % (records.key(1), records.value(1))
        for number in (1, 8):
            served.expect(Answer(200, [], body), f"/customers/{records.key(number).decode()}")
    row = theirs.row(more={"seconds": float})
    assert row.more == {"seconds": 4.5}
    [wrong] = row.wrong
    assert wrong.startswith(
        "of 10 reads of streams-1 after it was ready, 3 were answered wrongly, the"
    )
    assert wrong.endswith("customer-0000008: 404 b'\"unknown\"'")
    [other] = served.row().wrong
    assert other.startswith("/customers/customer-0000008: 404 b'\"unknown\"', not 200")


def test_the_output_of_a_load_generator_that_fails_is_in_its_row(wrk: Path) -> None:
    wrk.write_text("unable to connect to 127.0.0.1:1 Connection refused\n")
    servers = [Server("any", os.getpid(), 1, reference=True)]
    reference = Served("redis-asgi", lambda: servers, reference=True)
    reference.load(_READS, 16, 1)
    [fault] = reference.loaded_row(16).faults
    assert fault.endswith("wrk ended with status 0: unable to connect to 127.0.0.1:1 "
                          "Connection refused")  # fmt: skip
