"""A pytest plugin: the order of test files, and their assignment to xdist workers.

The longest files run first, so that no worker has one of them left at the end. How long a file
takes is recorded in `tests/durations.json`; `pytest --record-durations` writes it.

Files of `tests/spark` share a Spark session, which needs half a minute of CPU time to warm up: only
`SPARK_WORKERS` of the workers run them, before anything else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SPARK_WORKERS = 2
SPARK = "tests/spark/"
DURATIONS = Path(__file__).parents[2] / "durations.json"

_UNKNOWN = 5.0  # s, for a file that is not recorded; files of less than a second are not recorded
_UNITS = "tests/unit/"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations", action="store_true", help=f"write {DURATIONS.name} after the run"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record_durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(), "durations")


class Recorder:
    """Adds up the seconds of each file. With xdist it runs in the controller."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        known = recorded() | self._seconds
        lasting = {
            file: round(seconds, 1)
            for file, seconds in sorted(known.items())
            if seconds >= 1 and (DURATIONS.parents[1] / file).exists()
        }
        DURATIONS.write_text(json.dumps(lasting, indent=0) + "\n")


def recorded() -> dict[str, float]:
    """The seconds that a file took when they were recorded."""
    return dict(json.loads(DURATIONS.read_text())) if DURATIONS.exists() else {}


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def rank(file: str, durations: Mapping[str, float]) -> float:
    """The files are run in the order of this number."""
    return -durations.get(file, 0.0 if file.startswith(_UNITS) else _UNKNOWN)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the files, but not the tests in a file."""
    durations = recorded()
    items.sort(key=lambda item: rank(file_of(item.nodeid), durations))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile` in the order above: xdist's own order is by the number of tests."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class InOrder(LoadFileScheduling):
        """Also works around bugs of xdist 3.8 after a worker has died (its issues 1323, 1327,
        1378): xdist runs the test that killed the worker again and again, and it gives finished or
        single units to the replacement, which then waits forever."""

        def __init__(self) -> None:
            super().__init__(config, log)
            self._spark_nodes: list[Any] = []

        def remove_node(self, node: Any) -> str | None:
            if node in self._spark_nodes:
                self._spark_nodes.remove(node)  # another worker starts a session
            units = self.assigned_work.pop(node)
            crashed = next(
                (nodeid for unit in units.values() for nodeid, done in unit.items() if not done),
                None,
            )
            for name, unit in units.items():
                if crashed in unit:
                    unit[crashed] = True  # it counts as failed and does not run again
                if not all(unit.values()):
                    self.workqueue[name] = unit
            self._fill()
            return crashed

        def schedule(self) -> None:
            super().schedule()
            self._fill()

        def _fill(self) -> None:
            """Gives each worker at least two tests, because a worker starts its first test only
            when it has a second one. A worker for which nothing is left ends."""
            for node in self.nodes:
                if node not in self.registered_collections:
                    continue  # it is still collecting
                before = -1
                while not node.shutting_down and before != (left := len(self.workqueue)):
                    before = left
                    self._reschedule(node)

        def _reschedule(self, node: Any) -> None:
            if not node.shutting_down and self._next_of(node) is None:
                node.shutdown()
            else:
                super()._reschedule(node)

        def _assign_work_unit(self, node: Any) -> None:
            unit = self._next_of(node)
            if unit is not None:
                self.workqueue.move_to_end(unit, last=False)
                super()._assign_work_unit(node)

        def _next_of(self, node: Any) -> str | None:
            """The next unit that the worker may run."""
            spark = next((unit for unit in self.workqueue if unit.startswith(SPARK)), None)
            if spark is not None and self._has_session(node):
                return spark
            return next((unit for unit in self.workqueue if not unit.startswith(SPARK)), None)

        def _has_session(self, node: Any) -> bool:
            if node not in self._spark_nodes and len(self._spark_nodes) < SPARK_WORKERS:
                self._spark_nodes.append(node)
            return node in self._spark_nodes

    config.option.loadscopereorder = False
    return InOrder()
