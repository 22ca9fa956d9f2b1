"""A pytest plugin for `make unit`: a test of `tests/unit` that takes long fails there.

It is in force with hypothesis' profile `quick` (tests/support/examples.py). A test that needs more
time has the mark `slow`, which `make unit` leaves out, or starts other processes and belongs in
`tests/system`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from time import monotonic  # tests replace that of the module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.waiting import stretch
from tests.support.examples import is_quick, register_profiles

LIMIT = 0.5  # s

register_profiles()


@settings(max_examples=1, database=None)
@given(st.text())
def _make_table_of_characters(_: str) -> None:
    """hypothesis makes it for the first text in a new clone, in a second, and keeps it there."""


def pytest_collection_finish() -> None:
    if is_quick():
        _make_table_of_characters()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    if not is_quick() or item.get_closest_marker("slow"):
        return (yield)
    began, waited = monotonic(), _waited_for_a_core()
    result = yield
    # what other processes take from this one is not the test's
    took = monotonic() - began - (_waited_for_a_core() - waited)
    if took > LIMIT * stretch():
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
