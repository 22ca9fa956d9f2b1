"""Every alert has a test in this folder in which a real fault raises it, and one that runs the
commands of its runbook."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.support.prometheus.promql import alerts


def test_every_alert_has_a_fault_that_raises_it() -> None:
    """The hook of conftest.py checks that the alerts of the mark have fired."""
    assert _named("raises") == alerts().keys()


def test_every_runbook_is_walked_through_in_its_fault() -> None:
    """The same hook checks that this was done."""
    assert _named("walks") == alerts().keys()


def _named(mark: str) -> set[str]:
    """The alerts in this mark of the tests."""
    return {
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for test in vars(import_module(f"{__package__}.{path.stem}")).values()
        for each in getattr(test, "pytestmark", ())
        if each.name == mark
        for name in each.args
    }
