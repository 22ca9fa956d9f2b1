"""One browser for all tests of the admin page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.support.browser import chromium


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver
