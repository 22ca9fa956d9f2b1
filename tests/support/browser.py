"""The admin page in a headless Chromium."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from local.waiting import MAX_STRETCH, wait_until

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-prefers-reduced-motion",  # an animation costs as much CPU as all else
)
_WAIT = 20.0  # s, on a loaded machine


@contextlib.contextmanager
def chromium(profile: Path, *more: str) -> Iterator[webdriver.Chrome]:
    """Debian's browser and driver; Selenium would download its own. `more`: options."""
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in found.items() if path is None]
    assert not missing, f"install Debian's packages chromium and chromium-driver: {missing}"
    options = webdriver.ChromeOptions()
    options.binary_location = str(found["chromium"])
    for option in (*_OPTIONS, *more, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found["chromedriver"]))
    try:
        driver.set_page_load_timeout(_WAIT * MAX_STRETCH)
        driver.set_script_timeout(_WAIT * MAX_STRETCH)
        yield driver
    finally:
        driver.quit()


@contextlib.contextmanager
def page_with_things(driver: webdriver.Chrome, port: int) -> Iterator[AdminPage]:
    """The page of a deployment that has the view `things` with two partitions; no script of it may
    fail."""
    page = AdminPage(driver, port)
    page.wait(lambda: len(page.grid("things")) == 2, "the grid")
    yield page
    assert page.console() == []


class AdminPage:
    """The open page of one backend."""

    def __init__(self, driver: webdriver.Chrome, port: int) -> None:
        self.driver = driver
        driver.get(f"http://127.0.0.1:{port}/admin")

    def wait(self, condition: Any, what: str) -> Any:
        return wait_until(condition, _WAIT, f"the admin page: {what}")

    def wait_long(self, condition: Any, what: str) -> Any:
        """Waits; long enough for a rebalance."""
        return wait_until(condition, 3 * _WAIT, f"the admin page: {what}")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def grid(self, view: str) -> dict[int, dict[str, str]]:
        """partition -> the contents of its tile; all are read at the same time."""
        tiles = self.run(
            """const tiles = [];
            for (const section of document.querySelectorAll(".view")) {
              if (section.querySelector("h3").textContent !== arguments[0]) continue;
              for (const tile of section.querySelectorAll(".partition")) {
                tiles.push([tile.querySelector(".number").textContent, {
                  owner: tile.querySelector(".owner").textContent,
                  state: tile.dataset.state,
                  how: tile.querySelector(".how").textContent,
                  colour: getComputedStyle(tile).borderTopColor,
                  label: tile.getAttribute("aria-description"),
                }]);
              }
            }
            return tiles;""",
            view,
        )
        return {int(number): tile for number, tile in tiles}

    def facts(self, selector: str) -> dict[str, str]:
        """The terms and values of a list."""
        return dict(
            self.run(
                """return [...document.querySelectorAll(arguments[0] + " > div")].map(
                  (group) => [group.children[0].textContent, group.children[1].textContent])""",
                selector,
            )
        )

    def instances(self) -> dict[str, dict[str, str]]:
        """id -> the contents of its card."""
        cards = self.run(
            """return [...document.querySelectorAll(".instance")].map((card) => [
              card.querySelector("h3").textContent,
              Object.fromEntries([
                ["state", card.querySelector(".badge").textContent],
                ["address", card.querySelector(".where").textContent],
                ...[...card.querySelectorAll("dl > div")].map(
                  (group) => [group.children[0].textContent, group.children[1].textContent]),
              ])])"""
        )
        return dict(cards)

    def totals(self) -> dict[str, str]:
        """The numbers of the whole deployment, by name."""
        texts = self.run(
            """return [...document.querySelectorAll("#totals li")].map(
                 (item) => [item.children[1].textContent, item.children[0].textContent])"""
        )
        return dict(texts)

    def attention(self) -> dict[str, list[str]]:
        """What needs attention: code -> the sentences."""
        groups = self.run(
            """return [...document.querySelectorAll("#warnings > li")].map((group) => [
              group.dataset.code, [...group.querySelectorAll("li")].map((li) => li.textContent)])"""
        )
        return dict(groups)

    def look_up(self, view: str, key: str) -> dict[str, Any]:
        """Looks up a key, and returns the contents of the result."""
        self.run("document.getElementById('found').replaceChildren()")
        Select(self.one("#look-up-view")).select_by_value(view)
        field = self.one("#look-up-key")
        field.clear()
        field.send_keys(key)
        self.one("#look-up [type=submit]").click()
        self.wait(lambda: self.run("return !!document.querySelector('#found .badge')"), "an answer")
        return {
            "outcome": self.text("#found .badge"),
            "detail": self.run("return document.querySelector('#found .detail')?.textContent"),
            "value": self.run("return document.querySelector('#found pre')?.textContent"),
            **self.facts("#found dl"),
        }

    def refreshes(self) -> int:
        """The number of requests since the page was opened."""
        return int(
            self.run(
                "return performance.getEntriesByType('resource')"
                ".filter((entry) => entry.name.endsWith('/admin/topology.json')).length"
            )
        )

    def no_dialog(self) -> bool:
        try:
            text = self.driver.switch_to.alert.text
        except NoAlertPresentException:
            return True
        raise AssertionError(f"a dialog opened: {text}")

    def console(self) -> list[str]:
        """Errors and warnings since the last call, except error statuses."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING") and entry["source"] != "network"
        ]
