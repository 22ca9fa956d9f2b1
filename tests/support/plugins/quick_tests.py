"""A pytest plugin for `make unit`: a test of `tests/unit` that takes long fails there.

It is in force with hypothesis' profile `quick` (tests/support/examples.py). A test that needs more
time has the mark `slow`, which `make unit` leaves out, or starts other processes and belongs in
`tests/system`.

Files of these tests are in memory if there is room: stores that wait for a disk would take a third
of the time.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Generator
from pathlib import Path
from time import monotonic  # tests replace that of the module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.waiting import stretch
from tests.support.examples import QUICK, is_quick, register_profiles

LIMIT = 0.5  # s
MEMORY = Path("/dev/shm")
_LEAST_FREE = 4 << 30  # bytes; a run needs less than a tenth
_FOLDER = "queryable-unit-"  # and the process id

register_profiles()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses its folder
def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.basetemp or config.getoption("--hypothesis-profile") != QUICK:
        return
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < _LEAST_FREE:
        return
    for left in MEMORY.glob(f"{_FOLDER}*"):  # by a run that was killed
        if not Path("/proc", left.name.removeprefix(_FOLDER)).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = MEMORY / f"{_FOLDER}{os.getpid()}"
    config.option.basetemp = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@settings(max_examples=1, database=None)
@given(st.text())
def _make_table_of_characters(_: str) -> None:
    """Lets hypothesis make its table of characters. In a new clone it does so for the first text,
    which takes a second, and keeps the table there."""


def pytest_collection_finish() -> None:
    if is_quick():
        _make_table_of_characters()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    if not is_quick() or item.get_closest_marker("slow"):
        return (yield)
    began, waited = monotonic(), _waited_for_a_core()
    result = yield
    # time that other processes take from this one does not count
    took = monotonic() - began - (_waited_for_a_core() - waited)
    if took > LIMIT and took > LIMIT * stretch():  # `stretch` reads files
        pytest.fail(
            f"{item.nodeid} took {took:.2f} s, more than {LIMIT} s: make it faster, or mark it "
            "`slow` so that `make unit` leaves it out",
            pytrace=False,
        )
    return result


def _waited_for_a_core() -> float:
    """For how long this thread was ready to run and did not: the second number of
    /proc/…/schedstat, in ns."""
    task = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    try:
        return int(task.read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
