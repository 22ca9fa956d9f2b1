"""The faults of global views, added to `SCENARIOS`."""

from __future__ import annotations

import shutil

from local.errors import LocalError
from tests.faults.cluster import VIEW, Setup
from tests.faults.runner import ScenarioContext, Target
from tests.faults.scenarios import SCENARIOS, scenario
from tests.support.backends import Backend
from tests.support.client import Client, key_path

__all__ = ["SCENARIOS"]

# a copy, and not the log, however few records there are
GLOBAL = Setup(store="global", settings={"copy_threshold": "1"})
TARGET = Target(0.001, 300)


@scenario(
    "global-kill", "kill -9 of one of three, then of another, of a global view", GLOBAL, TARGET
)
def global_kill(context: ScenarioContext) -> None:
    first, second, last = context.backends
    context.mark_fault()
    first.kill()
    for survivor in (second, last):
        _check_answers_alone(context, survivor)
    context.wait_redundant([second, last])
    context.wait()
    context.mark_fault()
    second.kill()
    _check_answers_alone(context, last)
    context.wait_redundant([last])
    context.wait()
    # an instance without data gets all partitions from the survivor
    shutil.rmtree(first.data_dir)
    context.mark_fault()
    first.launch()
    context.wait_redundant([first, last])
    for partition in range(context.cluster.partitions):
        first.wait_log(f"view {VIEW}, partition {partition}: received a snapshot")
    _check_answers_alone(context, first)
    second.launch()
    context.wait_redundant(context.backends)


@scenario("global-kill-two", "kill -9 of two of three at once, of a global view", GLOBAL, TARGET)
def global_kill_two(context: ScenarioContext) -> None:
    *victims, last = context.backends
    context.mark_fault()
    for victim in victims:
        victim.kill()
    _check_answers_alone(context, last)
    context.wait_redundant([last])
    context.wait()
    context.mark_fault()
    for victim in victims:
        victim.launch()
    context.wait_redundant(context.backends)


def _check_answers_alone(context: ScenarioContext, backend: Backend) -> None:
    """LocalError unless the instance itself answers for every key and for the whole view, now."""
    keys = context.cluster.keys.kept
    with Client(backend.port) as client:
        for path in (*(key_path(VIEW, key) for key in keys), f"/views/{VIEW}/count?exact=true"):
            answer = client.get(path)
            readers = {each.split(";")[0] for each in str(answer.headers["Served-By"]).split(", ")}
            if answer.status != 200 or readers != {backend.id}:
                raise LocalError(f"{backend.id}: {path}: {answer.status}, read by {readers}")
