"""A run keeps what it has measured, and measures all groups."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from bench.load import Measurement
from bench.plan import FULL, QUICK, Plan
from bench.report import Report, Target
from bench.run import Group, keep, run
from bench.stack import Server, Stack
from bench.subject import Baseline, Subject
from local.errors import LocalError
from local.waiting import wait_until

_PLAN = replace(QUICK, rounds=2)
_SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
_END = [sys.executable, "-c", "raise SystemExit('no memory')"]


class _Broker:
    """The part of a stack that a run uses without servers."""

    def __init__(self, ended: bool = False) -> None:
        self.ended = ended
        self.groups: list[str] = []

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.groups.append("stopped")

    @contextmanager
    def group(self) -> Iterator[None]:
        self.groups.append("started")
        yield

    def cpu_seconds(self) -> float:
        return 0.0

    def check_broker(self) -> None:
        if self.ended:
            raise LocalError("the broker ended")


def _group(name: str, rounds: int = 2, fails: Callable[[], None] | None = None) -> Group:
    """A group with one row. After this number of rounds it fails if it should."""
    done = 0

    def once(_: int | None) -> Measurement:
        nonlocal done
        if done == rounds and fails is not None:
            fails()
        done += 1
        return Measurement({"cpu_us": 1.0})

    baselines = [Baseline("cpu_us", name, Target(9.0))]
    return lambda stack, plan: iter([[Subject(name, once, baselines=baselines)]])


def _raise(error: BaseException) -> None:
    raise error


def _run(
    path: Path, groups: dict[str, Group], plan: Plan = _PLAN, *, ended: bool = False
) -> Report:
    report = Report({"cores": 2}, {})
    with_broker = cast(Any, _Broker(ended))
    try:
        run(report, groups, plan, lambda: with_broker, path)
    finally:
        assert with_broker.groups[-1] == "stopped"
    return report


def _names(path: Path) -> list[tuple[str, int]]:
    return [(row["name"], row["rounds"]) for row in json.loads(path.read_text())["rows"]]


def test_a_group_that_fails_keeps_its_rounds_and_the_others_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    report = _run(
        path,
        {
            "first": _group("a"),
            "second": _group("b", 1, partial(_raise, LocalError("a wrong answer"))),
            "third": _group("c", 0, partial(_raise, KeyError("a defect"))),
            "last": _group("d"),
        },
    )
    assert _names(path) == [("a", 2), ("b", 1), ("d", 2)]
    assert report.unfinished == {"second": "b: a wrong answer", "third": "KeyError('a defect')"}
    assert report.problems == ["second: b: a wrong answer", "third: KeyError('a defect')"]
    assert json.loads(path.read_text())["unfinished"] == report.unfinished
    shown = capsys.readouterr().err
    assert "second failed: b: a wrong answer" in shown
    assert "Traceback" in shown  # of the defect


def test_an_interrupted_run_has_all_rows_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    groups: dict[str, Group] = {
        "first": _group("a"),
        "second": _group("b", 1, partial(_raise, KeyboardInterrupt())),
        "last": _group("c"),
    }
    with pytest.raises(KeyboardInterrupt):
        _run(path, groups)
    assert _names(path) == [("a", 2), ("b", 1)]
    document = json.loads(path.read_text())
    assert document["unfinished"] == {"second": "interrupted", "last": "not measured"}
    assert document["machine"]["others"] >= 0


def test_each_measurement_is_on_disk_before_the_next_one(tmp_path: Path) -> None:
    """For example if the machine stops."""
    path = tmp_path / "results.json"
    seen: list[list[tuple[str, int]]] = []
    second = _group("b", 1, lambda: seen.append(_names(path)))
    _run(path, {"first": _group("a"), "second": second})
    assert seen == [[("a", 2), ("b", 1)]]


def test_a_run_ends_without_a_broker(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    groups: dict[str, Group] = {
        "first": _group("a", 1, partial(_raise, LocalError("timed out"))),
        "last": _group("b"),
    }
    with pytest.raises(LocalError, match="the broker ended"):
        _run(path, groups, ended=True)
    assert _names(path) == [("a", 1)]
    assert json.loads(path.read_text())["unfinished"] == {
        "first": "a: timed out", "last": "not measured",
    }  # fmt: skip


def test_a_small_run_has_no_targets(tmp_path: Path) -> None:
    for plan, met in ((QUICK, None), (replace(FULL, rounds=1), True)):
        report = _run(tmp_path / "results.json", {"first": _group("a")}, plan)
        assert [each.met for row in report.rows for each in row.comparisons] == [met]
        assert report.problems == []


def test_a_new_run_keeps_the_results_of_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    keep(path)  # there is none
    path.write_text("1")
    keep(path)
    [kept] = tmp_path.iterdir()
    assert kept.name.startswith("results-20")
    assert kept.read_text() == "1"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Without a broker: its servers are programs that need none."""
    stack = Stack(tmp_path, 10)
    yield stack
    stack.__exit__()


def _ended(server: Server) -> Callable[[], bool]:
    state = Path(f"/proc/{server.pid}/stat")
    return lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_servers_of_a_group_are_stopped_after_it(stack: Stack) -> None:
    with stack.group():
        ours = stack.launch("backend-1", lambda _: _SLEEP)
        reference = stack.launch("constant-1", lambda _: _SLEEP, reference=True)
        stack.check(ours, reference)
        assert stack.cpu_seconds() >= 0
    assert _ended(ours)()
    assert _ended(reference)()


def test_a_reference_that_has_ended_does_not_fail_ours(stack: Stack) -> None:
    with stack.group():
        ours = stack.launch("backend-1", lambda _: _SLEEP)
        reference = stack.launch("constant-1", lambda _: _END, reference=True)
        wait_until(_ended(reference), 10, "the reference to end", 0.005)
        stack.wait(lambda: True, "ours")
        stack.check(ours)
        with pytest.raises(LocalError, match=r"constant-1 ended with.*\n.*no memory"):
            stack.check(reference)
        with pytest.raises(LocalError, match="no memory"):
            stack.wait(lambda: False, "the reference", reference=True)


def test_a_group_during_which_one_of_ours_has_ended_has_failed(stack: Stack) -> None:
    def end() -> None:
        with stack.group():
            server = stack.launch("backend-1", lambda _: _END)
            wait_until(_ended(server), 10, "the server to end", 0.005)

    with pytest.raises(LocalError, match=r"backend-1 ended with.*\n.*no memory"):
        end()
