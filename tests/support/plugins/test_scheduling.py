from __future__ import annotations

from itertools import chain

import pytest

from local.settings import REPOSITORY
from tests.support.plugins import scheduling
from tests.support.plugins.slow_tests import SLOW


def test_first_files_exist() -> None:
    named = {*scheduling.FIRST, *chain(*scheduling.SESSIONS)}
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


def test_all_files_that_need_the_spark_session_share_one(request: pytest.FixtureRequest) -> None:
    """Checks the files that were collected for this run."""
    needing = {
        item.nodeid.partition("::")[0]
        for item in request.session.items
        if "session" in getattr(item, "fixturenames", ())
    }
    assert needing <= {*chain(*scheduling.SESSIONS)}


def test_slow_tests_exist() -> None:
    for file, tests in SLOW.items():
        text = (REPOSITORY / file).read_text()
        assert [test for test in tests if f"def {test}(" not in text] == [], file
