"""The plan of kills, and which of them count for a view."""

from __future__ import annotations

import subprocess
import sys

from local.waiting import wait_until
from tests.pipelines.kills import Kind, Plan, Planner
from tests.pipelines.phases import Phase
from tests.pipelines.processes import in_session, kill, processes_of

VIEWS = ["counts", "texts"]


def planner(seed: int = 1, wanted: int = 3) -> Planner:
    return Planner(
        seed,
        VIEWS,
        wanted,
        tuple(Kind),
        uses_python=lambda view: view != "texts",
        stateless=lambda view: view == "texts",
    )


def plans(made: Planner, count: int) -> list[Plan]:
    found = []
    for _ in range(count):
        found.append(made.next())
        made.record(found[-1].kind, dict.fromkeys(VIEWS, Phase.WRITING))
    return found


def test_only_kills_within_a_micro_batch_count() -> None:
    made = planner()
    made.record(Kind.JVM, {"counts": Phase.WRITING, "texts": Phase.IDLE})
    made.record(Kind.ALL, {"counts": Phase.STARTING, "texts": Phase.OFFSET_LOG})
    assert [made.kills(view) for view in VIEWS] == [1, 1]
    assert made.phases("texts") == {"offset log": 1}


def test_a_python_worker_counts_only_for_views_that_use_it() -> None:
    made = planner(wanted=1)
    made.record(Kind.WORKER, dict.fromkeys(VIEWS, Phase.COMPUTING))
    assert [made.kills(view) for view in VIEWS] == [1, 0]
    assert made.kinds("counts") == {"worker": 1}
    assert not made.is_done
    made.record(Kind.DRIVER, dict.fromkeys(VIEWS, Phase.COMPUTING))
    assert made.is_done


def test_the_same_seed_gives_the_same_plans() -> None:
    assert plans(planner(7, 99), 20) == plans(planner(7, 99), 20)
    assert plans(planner(7, 99), 20) != plans(planner(8, 99), 20)


def test_all_kinds_and_phases_are_planned() -> None:
    found = plans(planner(wanted=99), 60)
    assert {plan.kind for plan in found} == set(Kind)
    assert {plan.aim for plan in found} >= {
        None, Phase.OFFSET_LOG, Phase.WRITING, Phase.STATE_COMMIT, Phase.COMMIT_LOG,
    }  # fmt: skip
    assert not [p for p in found if p.view == "texts" and p.aim is Phase.STATE_COMMIT]
    assert not [p for p in found if p.view == "texts" and p.kind in (Kind.WORKER, Kind.DAEMON)]


def test_the_processes_of_a_session_are_found_after_their_parent_has_died() -> None:
    child = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); input()"
    parent = subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        wait_until(lambda: len(list(in_session(parent.pid))) == 2, 20, "both processes")
        parent.kill()
        parent.wait()
        [orphan] = in_session(parent.pid)
        assert orphan.pid != parent.pid
    finally:
        for each in in_session(parent.pid):
            kill(each)
        if parent.stdin is not None:
            parent.stdin.close()
    wait_until(lambda: not list(in_session(parent.pid)), 20, "the orphan to end")


def test_a_child_that_has_no_program_of_its_own_yet_is_no_jvm() -> None:
    """Regression: it was killed instead of the JVM, which then lived on."""
    code = "import os, time; os.fork(); time.sleep(60)"
    parent = subprocess.Popen(
        [sys.executable, "-c", code, "org.apache.spark.deploy.SparkSubmit"], start_new_session=True
    )
    try:
        wait_until(lambda: len(list(in_session(parent.pid))) == 2, 20, "both processes")
        assert [each.pid for each in processes_of(parent.pid).jvms] == [parent.pid]
    finally:
        for each in in_session(parent.pid):
            kill(each)
        parent.wait()
