"""Settings of all tests. Fixtures are in tests/support/plugins/fixtures.py."""

from __future__ import annotations

import os
import sys

import pytest

pytest.register_assert_rewrite("tests.support")

pytest_plugins = [
    "tests.support.plugins.failure_logs",
    "tests.support.plugins.fixtures",
    "tests.support.plugins.garbage_collection",
    "tests.support.plugins.ports",
    "tests.support.plugins.quick_tests",
    "tests.support.plugins.scheduling",
    "tests.support.plugins.watchdog",
]

# Dozens of backends are started: without this each would compile all modules of the product.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
