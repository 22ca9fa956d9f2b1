from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from local.errors import LocalError
from local.waiting import wait_until
from tests.support.prometheus.runbooks import walk
from tests.support.prometheus.scrapes import Scrape, Target, firing, scrape

# on a busy machine a few reads are slow in any test, and its disk may be full of other files
_OF_MACHINE = {"QueryablePointReadsSlow", "QueryableDiskFull"}


class Alarms:
    """The alerts that fire in one test, and their runbooks. `seen` has all that have fired, and
    `walked` those whose commands were run."""

    def __init__(self, folder: Path, test: Path, expected: set[str]) -> None:
        """`test`: the file. `expected`: the alerts of the test's mark. Alerts that the machine
        itself may raise are left out if they are not among them."""
        self._folder = folder
        self._test = test
        self._left_out = _OF_MACHINE - expected
        self.seen: set[str] = set()
        self.walked: set[str] = set()

    def raised(self, before: Scrape, fault: Scrape, later: Scrape | None = None) -> set[str]:
        """The alerts that fire if the deployment goes from one state to the other: see `firing`."""
        found = firing(before, fault, self._folder, later) - self._left_out
        self.seen |= found
        return found

    def wait_raised(self, before: Scrape, of: list[Target], expected: set[str]) -> Scrape:
        """Scrapes until exactly these alerts fire. Returns the scrape. On a busy machine an
        instance may miss a heartbeat, which an alert waits for, and a single scrape does not."""
        found: list[tuple[set[str], Scrape]] = []

        def as_expected() -> bool:
            scraped = scrape(of)
            found.append((self.raised(before, scraped), scraped))
            return found[-1][0] == expected

        try:
            wait_until(as_expected, 30, "the alerts of the fault")
        except LocalError:
            alerts, scraped = found[-1]
            failed = [each for each in scraped.samples if 'status="5' in each]
            assert alerts == expected, failed
        return found[-1][1]

    def walk(self, alert: str, differing: Mapping[str, str]) -> None:
        """Runs the commands of its runbook: see `walk` of tests/support/prometheus/runbooks.py."""
        walk(self._test, alert, differing)
        self.walked.add(alert)

    def silent(self, *states: Scrape) -> None:
        """No alert fires in the last state, or after the way there from the state before."""
        assert self.raised(states[0], states[-1]) == set()


@pytest.fixture
def alarms(tmp_path: Path, request: pytest.FixtureRequest) -> Alarms:
    return Alarms(tmp_path, request.node.path, _named(request.node, "raises"))


def _named(item: pytest.Item, mark: str) -> set[str]:
    return {name for each in item.iter_markers(mark) for name in each.args}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test is passed if the alerts of its marks have fired, and their runbooks were walked."""
    yield
    if isinstance(item, pytest.Function) and "alarms" in item.funcargs:
        alarms: Alarms = item.funcargs["alarms"]
        assert _named(item, "raises") <= alarms.seen
        assert _named(item, "walks") == alarms.walked
