"""axe-core finds nothing serious on the admin page; it can be used with the keyboard alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from local.kafka.broker import Broker
from tests.support.browser import AdminPage, page_with_things
from tests.support.deployment import Deployment, views_toml
from tests.support.nginx import Nginx
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
ROOT = Path(__file__).parents[4]
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def nginx(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nginx]:
    things, others = make_topic(2), make_topic(2)
    writer = Writer(broker.bootstrap_servers)
    writer.table(things, {f"k{n}": {"n": n} for n in range(30)})
    writer.send(things, [(b"bad", b"{no json")])
    views = views_toml(things={"topic": things}, others={"topic": others})
    folder = tmp_path_factory.mktemp("accessibility")
    with Deployment(folder, broker.bootstrap_servers, views) as deployment:
        deployment.start(2)
        yield deployment.proxy(workers=1)


@pytest.fixture
def page(nginx: Nginx, driver: webdriver.Chrome) -> Iterator[AdminPage]:
    with page_with_things(driver, nginx.port) as page:
        yield page


def violations(page: AdminPage) -> list[str]:
    """What axe-core calls serious or critical. Its rules measure the contrast (AA), too."""
    # by the protocol of developer tools: the policy of the page allows no other script
    page.run(AXE)
    found: list[dict[str, Any]] = page.driver.execute_async_script(
        """const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
        axe.run(document, {runOnly: rules}).then((results) => arguments[0](results.violations));"""
    )
    return [
        f"{each['id']}: {json.dumps([node['html'][:150] for node in each['nodes'][:3]])} "
        f"{each['nodes'][0]['failureSummary']}"
        for each in found
        if each["impact"] in SERIOUS
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_axe_finds_nothing_serious(page: AdminPage, theme: str, width: int) -> None:
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        page.run(
            "const t = document.getElementById('theme'); t.value = arguments[0];"
            "t.dispatchEvent(new Event('change'))",
            theme,
        )
        page.look_up("things", "k1")
        page.one(".warnings [data-code='dead-letters'] button").click()
        page.wait(lambda: page.run("return !!document.querySelector('#letters tbody tr')"), "it")
        page.run("for (const d of document.querySelectorAll('.view details')) d.open = true")
        page.wait(lambda: page.run("return !!document.querySelector('.view tbody tr')"), "rows")
        assert violations(page) == []
        root = "document.documentElement"
        assert page.run(f"return {root}.scrollWidth - {root}.clientWidth") == 0
        page.run("document.querySelector('.instance .action').click()")
        assert page.one("#confirm").is_displayed()
        assert violations(page) == []
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_nothing_is_cut_at_any_width(page: AdminPage, width: int) -> None:
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    # of each chart: its width, and that of its figure
    charts = (
        "return [...document.querySelectorAll('.chart')].map((chart) => "
        "[chart.querySelector('.uplot')?.offsetWidth, chart.clientWidth])"
    )
    try:
        page.driver.refresh()
        page.wait(lambda: len(page.run(charts)) == 5, "the charts")
        for theme in ("dark", ""):
            page.wait(
                lambda: all(
                    of_chart == of_figure > 100 for of_chart, of_figure in page.run(charts)
                ),
                f"charts as wide as their figures: {page.run(charts)}",
            )
            page.one(f"#theme option[value='{theme}']").click()
        root = "document.documentElement"
        assert page.run(f"return {root}.scrollWidth - {root}.clientWidth") == 0
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_picture_of_the_docs_is_of_this_page(page: AdminPage, tmp_path: Path) -> None:
    """QUERYABLE_PICTURES=docs/images writes it there."""
    wanted = os.environ.get("QUERYABLE_PICTURES")
    folder = Path(wanted or tmp_path)
    screen = {"width": 1280, "height": 1250, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    lag = "return document.querySelector('.chart canvas')?.getAttribute('aria-label')"
    charts = "return document.querySelectorAll('.chart').length"
    reads = 0

    def has_a_history() -> bool:
        """Of some steps, if the picture is for the docs."""
        nonlocal reads
        reads += 1
        page.look_up("things", f"k{reads % 30}")
        return "none" not in (page.run(lag) or "none") and (not wanted or reads > 80)

    try:
        page.one("#theme option[value=light]").click()
        page.wait_long(has_a_history, "charts")
        assert page.run(charts) == 5
        page.look_up("things", "k1")
        page.run("scrollTo(0, 0)")
        assert page.driver.save_screenshot(str(folder / "admin-page.png"))
        page.one("#theme option[value='']").click()
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert (folder / "admin-page.png").read_bytes().startswith(b"\x89PNG")
    assert "admin-page.png" in (ROOT / "docs" / "admin-page.md").read_text()


def test_the_theme_is_kept(page: AdminPage, driver: webdriver.Chrome) -> None:
    def colour() -> str:
        return str(page.run("return getComputedStyle(document.body).backgroundColor"))

    colours = {}
    for theme in ("light", "dark"):
        page.one(f"#theme option[value={theme}]").click()
        colours[theme] = colour()
    assert colours["light"] != colours["dark"]
    driver.refresh()
    page.wait(lambda: colour() == colours["dark"], "the dark theme")
    page.one("#theme option[value='']").click()
    assert page.run("return localStorage.length") == 0


def test_the_keyboard_alone_is_enough(page: AdminPage, driver: webdriver.Chrome) -> None:
    def send(*keys: str) -> None:
        ActionChains(driver).send_keys(*keys).perform()

    def focused() -> str:
        return str(page.run("const e = document.activeElement; return e.id || e.textContent"))

    def shown() -> list[str]:
        views: list[str] = page.run(
            "return [...document.querySelectorAll('.view')].filter((v) => v.checkVisibility())"
            ".map((v) => v.querySelector('h3').textContent)"
        )
        return views

    send("/")
    assert focused() == "search"
    send("oth")
    page.wait(lambda: shown() == ["others"], "one view")
    send("erx")
    page.wait(lambda: page.one("#no-views").is_displayed(), "that there is none")
    send(*[Keys.BACKSPACE] * 6)
    assert shown() == ["things", "others"]
    send(Keys.TAB)
    assert focused() == "collapse"
    send(Keys.ENTER)
    assert not page.run("return document.querySelector('.partition').checkVisibility()")
    send(Keys.TAB)
    assert focused() == "things"
    send(Keys.ENTER)
    assert page.run("return document.querySelector('.partition').checkVisibility()")
    # a query
    page.run("document.getElementById('look-up-key').focus()")
    send("k3", Keys.ENTER)
    page.wait(lambda: page.run("return document.querySelector('#found .badge')"), "the answer")
    # a command: the question has the focus, and Escape is no
    page.run("document.querySelector('.instance .action').focus()")
    send(Keys.ENTER)
    page.wait(lambda: focused() == "confirm-no", "the question")
    send(Keys.ESCAPE)
    page.wait(lambda: not page.one("#confirm").is_displayed(), "the end of the question")
    assert focused() == "Drain"
