"""Ours and references that answer wrongly, or fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bench import records
from bench.load import Measurement, Query, Workload
from bench.plan import QUICK
from bench.report import Row, Target
from bench.rows.instances import wrong_reads
from bench.stack import Server
from bench.subject import Baseline, LoadTest, Subject, measured, run_reference
from local.errors import LocalError

_REPORT = (
    '{"requests":1000,"duration_us":1000000,"refused":%d,"unanswered":0,'
    '"p50_us":100,"p99_us":300,"p99_9_us":400}'
)
_READS = Workload(records.customers(10))
_PLAN = replace(QUICK, connections=(16, 64))


class _Once:
    """Measures these numbers, and then fails."""

    def __init__(self, *values: float, error: Exception | None = None) -> None:
        self._values = iter(values)
        self._error = error or LocalError("it ended")

    def __call__(self, connections: int | None) -> Measurement:
        for value in self._values:
            return Measurement({"rps": value})
        raise self._error


def _rows(*subjects: Subject, rounds: int = 1) -> list[Row]:
    return list(measured("some", iter([subjects]), replace(_PLAN, rounds=rounds)))[-1]


def test_rounds_become_medians() -> None:
    ours = Subject("ours", _Once(3.0, 1.0, 2.0))
    assert ours.row(None, {}).rounds == 0
    [row] = _rows(ours, rounds=3)
    assert (row.values, row.rounds, row.reference, row.faults) == ({"rps": 2.0}, 3, False, [])


def test_each_round_measures_all_subjects_in_turn_at_each_number_of_connections() -> None:
    turns: list[tuple[str, int | None]] = []

    def subject(name: str, *connections: int | None) -> Subject:
        def once(number: int | None) -> Measurement:
            turns.append((name, number))
            return Measurement({"rps": 1.0})

        return Subject(name, once, connections=connections)

    rows = _rows(subject("a", 1, 16), subject("b", 1), subject("c", None), rounds=2)
    assert turns == 2 * [("c", None), ("a", 1), ("b", 1), ("a", 16)]
    assert [(row.name, row.connections) for row in rows] == turns[:4]
    assert [row.rounds for row in rows] == [2] * 4


def test_rows_of_a_phase_are_compared_with_those_of_a_later_one() -> None:
    ours = Subject("ours", _Once(6.0), baselines=[Baseline("rps", "theirs", Target(2.0))])
    theirs = Subject("theirs", _Once(2.0), reference=True)
    first, last = measured("some", iter([[ours], [theirs]]), _PLAN)
    assert [row.name for row in first] == ["ours"]
    assert [str(each) for each in first[0].comparisons] == ["rate 6.00 /s; theirs: not measured"]
    assert [str(each) for each in last[0].comparisons] == ["rate 6.00 /s = 3.00 × theirs"]
    assert [each.met for each in last[0].comparisons] == [False]


def test_a_target_may_depend_on_the_number_of_connections() -> None:
    baselines = [Baseline("rps", "bare", {16: Target(1.0)}), Baseline("rps", "bare", Target(9.0))]
    ours = Subject("ours", _Once(4.0, 5.0), baselines=baselines, connections=[16, 64])
    bare, at_16, at_64 = _rows(ours, Subject("bare", _Once(2.0), reference=True))
    assert bare.comparisons == []
    assert [each.met for each in at_16.comparisons] == [False, True]
    assert [each.met for each in at_64.comparisons] == [None, True]
    assert at_64.comparisons[0].ratio is not None
    assert at_64.comparisons[0].ratio.median == 2.5


def test_a_reference_that_fails_keeps_its_rounds_and_is_not_measured_again() -> None:
    ours = Subject("ours", _Once(2.0, 2.0, 2.0), baselines=[Baseline("rps", "theirs")])
    theirs = Subject("theirs", _Once(4.0), reference=True)
    row, reference = _rows(ours, theirs, rounds=3)
    assert (reference.values, reference.rounds, reference.failure) == ({"rps": 4.0}, 1, "it ended")
    assert reference.faults == ["the reference failed: it ended"]
    [comparison] = row.comparisons
    assert comparison.ratio is not None
    assert comparison.ratio.median == 0.5


def test_errors_of_a_reference_are_recorded_whatever_they_are() -> None:
    reference = Subject(
        "theirs", _Once(error=ValueError("no number")), reference=True, connections=[16]
    )
    [row] = _rows(reference)
    assert row.failure == "ValueError('no number')"


def test_an_error_of_ours_is_raised_with_its_name() -> None:
    with pytest.raises(LocalError, match="proxy-token: it ended"):
        _rows(Subject("proxy-token", _Once()))
    with pytest.raises(ValueError, match="no number"):
        _rows(Subject("proxy-token", _Once(error=ValueError("no number"))))


def test_wrong_answers_belong_to_a_number_of_connections_or_to_all() -> None:
    def once(connections: int | None) -> Measurement:
        return Measurement({}, ["under load"] if connections == 16 else [])

    subject = Subject("theirs", once, reference=True, connections=[16, 64])
    subject.note("at launch")
    at_16, at_64 = _rows(subject)
    assert (at_16.wrong, at_64.wrong) == (["at launch", "under load"], ["at launch"])


def test_the_output_of_a_reference_that_fails_is_in_the_error() -> None:
    with pytest.raises(LocalError, match=r"bench.references.consume failed:\n(.*\n)* .*IndexError"):
        run_reference("consume")


@pytest.fixture
def wrk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A load generator whose report is the content of the file; test_requests.py has the script of
    the real one."""
    report, program = tmp_path / "report", tmp_path / "wrk"
    program.write_text(f'#!/bin/sh\ncat "{report}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return report


class _Reads(BaseHTTPRequestHandler):
    """Answers reads of records like a backend, but not of the three greatest numbers."""

    def do_GET(self) -> None:
        number = int(self.path.rpartition("-")[2])
        is_known = number < 7
        body = records.document(_READS.table, number) if is_known else b'"unknown"'
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def application() -> Iterator[Server]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Reads)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield Server("streams-1", os.getpid(), server.server_port, reference=True)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("reference", [True, False])
def test_a_load_with_wrong_answers_is_kept_with_their_number(
    wrk: Path, application: Server, reference: bool
) -> None:
    wrk.write_text(_REPORT % 0)
    subject = LoadTest("asgi", lambda: [application], _READS, _PLAN, reference=reference)
    subject.start()
    subject.measure(16)
    wrk.write_text(_REPORT % 3)
    subject.measure(64)
    right, wrong = (subject.row(connections, {}) for connections in (16, 64))
    assert (right.values["rps"], right.values["p50_ms"], right.faults) == (1000.0, 0.1, [])
    assert (wrong.values["rps"], wrong.values["p50_ms"], wrong.rounds) == (1000.0, 0.1, 1)
    assert wrong.wrong == ["of 1,000 requests, 3 were answered with an error and 0 not at all"]
    assert wrong.reference is reference


def test_a_first_read_that_is_wrong_is_in_all_rows(wrk: Path, application: Server) -> None:
    wrk.write_text(_REPORT % 0)
    other = Workload(records.Table("customers", 10, value_size=20))
    at_16, at_64 = _rows(LoadTest("asgi", lambda: [application], other, _PLAN, reference=True))
    assert at_16.wrong == at_64.wrong
    [wrong] = at_16.wrong
    assert wrong.startswith('/customers/customer-0000000: 200 b\'{"key"')


def test_a_first_query_that_is_answered_by_another_plan_is_in_the_row(
    wrk: Path, application: Server
) -> None:
    wrk.write_text(_REPORT % 0)
    for plan, faults in ((None, 0), ("index city", 1)):
        query = Query("/customers/customer-%07d", 10, plan, b'{"key":"customer-0000000","v')
        queries = Workload(records.customers(10), query=query)
        [row] = _rows(
            LoadTest(
                "page", lambda: [application], queries, _PLAN, connections=[16], reference=True
            )
        )
        assert len(row.wrong) == faults


def test_rate_and_cost_of_batches_are_those_of_a_key(wrk: Path, application: Server) -> None:
    wrk.write_text(_REPORT % 0)
    batches = Workload(records.customers(10), batch=50)
    [row] = _rows(
        LoadTest("batch", lambda: [application], batches, _PLAN, connections=[16], reference=True)
    )
    assert row.values["rps"] == 50_000
    [wrong] = row.wrong  # the application has no batches
    assert wrong.startswith("/views/customers/batch: 501")


def test_a_load_without_any_answer_is_an_error_of_ours(wrk: Path, application: Server) -> None:
    wrk.write_text((_REPORT % 0).replace('"requests":1000', '"requests":0'))
    with pytest.raises(LocalError, match=r"backend: http://127.0.0.1:\d+ answered no request"):
        _rows(LoadTest("backend", lambda: [application], _READS, _PLAN))
    row, _ = _rows(LoadTest("asgi", lambda: [application], _READS, _PLAN, reference=True))
    assert "answered no request" in row.failure


def test_a_reference_that_does_not_start_has_rows_without_numbers() -> None:
    def launch() -> list[Server]:
        raise LocalError("timed out after 60 s")

    subject = LoadTest("static", launch, _READS, _PLAN, reference=True)
    behind = LoadTest("nginx", lambda: [subject.server], _READS, _PLAN, reference=True)
    for row in _rows(subject, behind):
        assert (row.values, row.rounds, row.wrong) == ({}, 0, [])
        assert row.failure == "timed out after 60 s"


def test_wrong_reads_are_described(application: Server) -> None:
    [wrong] = wrong_reads(application, range(10))
    assert wrong.startswith(
        "of 10 reads of streams-1 after it was ready, 3 were answered wrongly, the first: "
    )
    assert wrong.endswith("customer-0000007: 404 b'\"unknown\"'")
    assert wrong_reads(application, range(7)) == []


def test_the_output_of_a_load_generator_that_fails_is_in_its_row(
    wrk: Path, application: Server
) -> None:
    wrk.write_text("unable to connect to 127.0.0.1:1 Connection refused\n")
    row, _ = _rows(LoadTest("asgi", lambda: [application], _READS, _PLAN, reference=True))
    assert row.faults[0].endswith(
        "wrk ended with status 0: unable to connect to 127.0.0.1:1 Connection refused"
    )
