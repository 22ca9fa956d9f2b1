from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.prometheus.scrapes import Scrape, firing


class Alarms:
    """The alerts that fire in one test. `seen` has all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: set[str] = set()

    def raised(self, before: Scrape, fault: Scrape, later: Scrape | None = None) -> set[str]:
        """The alerts that fire if the deployment goes from one state to the other: see `firing`."""
        found = firing(before, fault, self._folder, later)
        self.seen |= found
        return found

    def silent(self, *states: Scrape) -> None:
        """No alert fires in the last state, or after the way there from the state before."""
        assert self.raised(states[0], states[-1]) == set()


@pytest.fixture
def alarms(tmp_path: Path) -> Alarms:
    return Alarms(tmp_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test is passed if the alerts of its mark have fired, too."""
    yield
    marks = list(item.iter_markers("raises"))
    if isinstance(item, pytest.Function) and "alarms" in item.funcargs:
        assert {name for mark in marks for name in mark.args} <= item.funcargs["alarms"].seen
