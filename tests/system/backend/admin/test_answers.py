"""Answers on the admin page that are late, fail or are incomplete, in a real browser."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import Select

from local.kafka.broker import Broker
from model.partitioner import partition_of
from tests.support.backends import Backend
from tests.support.browser import AdminPage, page_with_things
from tests.support.deployment import Deployment, views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer
from tests.system.backend.admin.form import ask, press, table

THINGS = 30


@pytest.fixture(scope="module")
def backend(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    things, documents, hours = make_topic(2), make_topic(2), make_topic(2)
    writer = Writer(broker.bootstrap_servers)
    writer.table(things, {f"k{n:02}": {"n": n} for n in range(THINGS)})
    writer.send(documents, [(b'{"value": 7}', b'{"n":3}')])
    window = b"anna" + struct.pack(">qi", 1_356_998_400_000, 0)
    writer.send(hours, [(window, b'{"n":1,"m":2}')], partition_of("murmur2")(b"anna", 2))
    views = views_toml(
        things={"topic": things},
        documents={"topic": documents, "key": "json"},
        hours={"topic": hours, "store": "window", "window_size": "1h"},
    )
    folder = tmp_path_factory.mktemp("answers")
    with Deployment(folder, broker.bootstrap_servers, views) as deployment:
        [backend] = deployment.start(1)
        yield backend


@pytest.fixture
def page(backend: Backend, driver: webdriver.Chrome) -> Iterator[AdminPage]:
    with page_with_things(driver, backend.port) as page:
        yield page


def keys(page: AdminPage) -> list[str]:
    return [row["key"] for row in table(page)]


def replace_answers(page: AdminPage, part: str, expression: str) -> None:
    """The page gets these answers for paths with this part. `expression`: of a Response, or of a
    promise of it; `send()` sends the request."""
    page.run(
        f"""const [before, part] = [window.fetch, arguments[0]];
        window.fetch = async (path, ...more) => {{
          const send = () => before(path, ...more);
          return String(path).includes(part) ? {expression} : send();
        }};""",
        part,
    )


def test_a_second_press_of_next_page_adds_no_item_twice(page: AdminPage) -> None:
    assert ask(page, "things", "scan", prefix="", limit="10") == "10 items"
    held = "new Promise((answer) => window.asked.push(answer)).then(send)"
    replace_answers(page, "cursor=", f"window.asked ? {held} : send()")
    page.run("window.asked = []")
    press(page, "Next page")
    press(page, "Next page")
    page.wait(lambda: page.run("return window.asked.length"), "the request")
    page.run("[window.asked, window.answers] = [null, window.asked]")
    page.run("window.answers.forEach((answer) => answer())")
    page.wait(lambda: page.text("#found .badge") == "20 items", "the second page")
    assert page.run("return window.answers.length") == 1
    assert keys(page) == [f"k{n:02}" for n in range(20)]
    press(page, "Next page")
    page.wait(lambda: keys(page) == [f"k{n:02}" for n in range(THINGS)], "the last page")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("Promise.reject(new TypeError('no connection'))", "The backend did not answer."),
        (
            'Response.json({code: "not-ready", detail: "It starts."}, {status: 503})',
            "not-ready: It starts.",
        ),
    ],
)
def test_items_stay_if_the_next_page_fails_and_it_can_be_asked_for_again(
    page: AdminPage, failure: str, said: str
) -> None:
    assert ask(page, "things", "scan", prefix="", limit="20") == "20 items"
    replace_answers(page, "cursor=", f"window.fails ? {failure} : send()")
    page.run("window.fails = true")
    press(page, "Next page")
    shown = f"The next page is missing. {said}"
    page.wait(lambda: page.text("#found .detail") == shown, "the error")
    assert keys(page) == [f"k{n:02}" for n in range(20)]
    page.run("window.fails = false")
    press(page, "Next page")
    page.wait(lambda: keys(page) == [f"k{n:02}" for n in range(THINGS)], "the next page")
    assert page.text("#found .badge") == "30 items"


def test_live_changes_of_a_key_that_has_a_member_value(page: AdminPage) -> None:
    ask(page, "documents", "watch", key='{"value": 7}')
    page.wait(lambda: len(table(page)) == 1, "the current value")
    assert table(page)[0]["Value"] == '{"n":3}'


def test_replicas_that_do_not_answer_are_not_the_same(page: AdminPage) -> None:
    replica = (
        '{id: "b1", role: "active", status: 503, code: "owner-unreachable", offset: null,'
        " lag: null, staleness: null, document: null}"
    )
    body = f"{{partition: 0, replicas: [{replica}, {replica}]}}"
    replace_answers(page, "/replicas", f"Response.json({body})")
    assert ask(page, "things", "get", key="k01") == "found"
    press(page, "Compare replicas")
    page.wait(lambda: page.run("return document.querySelector('.replicas .badge')"), "the answers")
    assert page.text(".replicas .badge") == "None of the 2 replicas of partition 0 can be read."
    assert page.one(".replicas .badge").get_attribute("data-tone") == "warn"


def test_numbers_of_a_view_that_are_unknown_count_as_unknown(page: AdminPage) -> None:
    def shows(size: str, letters: str, mispartitioned: str) -> None:
        names = ("Size (estimate)", "Dead letters", "Mispartitioned")
        expected = dict(zip(names, (size, letters, mispartitioned), strict=True))

        def agrees() -> bool:
            shown = page.facts(".view:nth-child(1) .pointed")
            return {name: shown[name] for name in names} == expected

        page.wait(agrees, f"{expected}")

    replace_answers(
        page,
        "topology.json",
        """send().then(async (answer) => {
          const topology = await answer.json();
          const { placement } = topology.views.find(({ name }) => name === "things");
          const [known, ...others] = placement;
          Object.assign(known, { size_bytes: 5000, dead_letters: 2, mis_partitioned: 0 });
          for (const p of window.isKnown ? others : placement) {
            p.size_bytes = p.dead_letters = p.mis_partitioned = null;
          }
          return Response.json(topology);
        })""",
    )
    assert page.text(".view:nth-child(1) h3") == "things"
    shows("unknown", "unknown", "unknown")
    page.run("window.isKnown = true")
    shows("≥ 5.0 kB", "≥ 2", "unknown")


def test_a_partition_with_too_few_instances_is_counted_and_marked_everywhere(
    page: AdminPage,
) -> None:
    """The first partition of the view has as many as it should, the second one has too few."""
    replace_answers(
        page,
        "topology.json",
        """send().then(async (answer) => {
          const topology = await answer.json();
          const view = topology.views.find(({ name }) => name === "things");
          view.replicas = 2;
          view.placement[0].answered_by = ["b1", "b2"];
          view.placement[1].answered_by = window.isLost ? [] : ["b1"];
          view.placement[1].state = window.isLost ? "nobody" : "answerable";
          return Response.json(topology);
        })""",
    )
    page.wait(lambda: page.totals()["Below replica target"] == "1 of 6", "the totals")
    assert page.facts(".view:nth-child(1) .pointed")["Below replica target"] == "1"
    assert page.text(".view:nth-child(1) .sum") == "2 of 2 answerable · 1 below replica target"
    missing = """return [...document.querySelectorAll(".view:nth-child(1) .partition")].map(
      (tile) => "missing" in tile.dataset)"""
    assert page.run(missing) == [False, True]
    [few] = page.attention()["below-replicas"]
    assert few.startswith("View things: 1 of 2 partitions can be read, but on fewer than 2 ")

    # one that no instance answers for is another finding, and still below the target
    page.run("window.isLost = true")
    page.wait(lambda: "not-answerable" in page.attention(), "the finding")
    assert "below-replicas" not in page.attention()
    assert page.totals()["Below replica target"] == "1 of 6"
    assert page.run(missing) == [False, True]


def test_a_chart_of_items_takes_no_memory_after_the_next_one_is_drawn(page: AdminPage) -> None:
    keep = "(window.seen ??= []).push(document.querySelector('#found .chart'))"
    drawn = "return window.seen.map((figure) => figure.querySelectorAll('canvas').length)"
    chart = "return !!document.querySelector('#found .chart canvas')"

    assert ask(page, "hours", "windows", key="anna") == "1 item"
    page.wait(lambda: page.run(chart), "a chart")
    page.run(keep)
    assert page.run(drawn) == [1]
    Select(page.one("#found .chart-of select")).select_by_value("value.m")
    page.wait(lambda: page.run(chart), "a chart of other numbers")
    page.run(keep)
    assert page.run(drawn) == [0, 1]
    assert ask(page, "hours", "windows", key="anna") == "1 item"
    page.wait(lambda: page.run(chart), "a chart of another answer")
    assert page.run(drawn) == [0, 0]
