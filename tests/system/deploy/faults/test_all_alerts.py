"""Every alert has a test in this folder in which a real fault raises it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.support.prometheus.promql import alerts


def test_every_alert_has_a_fault_that_raises_it() -> None:
    """The hook of conftest.py checks that the alerts of the mark have fired."""
    raised: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for test in vars(import_module(f"{__package__}.{path.stem}")).values():
            for mark in getattr(test, "pytestmark", ()):
                raised |= {*mark.args} if mark.name == "raises" else set()
    assert raised == alerts().keys()
