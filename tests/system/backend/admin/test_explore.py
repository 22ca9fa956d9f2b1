"""Queries of every kind of store on the admin page, in a real browser."""

from __future__ import annotations

import csv
import json
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

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

BIG = 2**63 - 1
HOUR = 3_600_000
START = 1_356_998_400_000
LONG = "x" * 1000
FORMATS = {
    "numbers": ("int64", struct.pack(">q", 7)),
    "doubles": ("float64", struct.pack(">d", 250.0)),
    "binary": ("bytes", "ü 1".encode()),
    "documents": ("json", b'{"id": 1}'),
}
"""By view: the format of its keys, and its only key."""


@pytest.fixture(scope="module")
def topics(make_topic: MakeTopic) -> dict[str, str]:
    return {name: make_topic(2) for name in ("things", "hours", "visits", "prices", *FORMATS)}


@pytest.fixture(scope="module")
def deployment(
    broker: Broker, topics: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    writer = Writer(broker.bootstrap_servers)
    things = {
        f"k{n:03}": {"n": n, "place": {"x": [1, {"y": "ü"}]}, "big": BIG, "text": '=1,"a"'}
        for n in range(130)
    }
    writer.table(topics["things"], things)
    home = partition_of("murmur2")
    windows = [
        (b"anna" + struct.pack(">qi", START + n * HOUR, 0), b'{"n":%d,"of":{},"m":1.5}' % (n + 1))
        for n in range(3)
    ]
    writer.send(topics["hours"], windows, home(b"anna", 2))
    long = (b"berta" + struct.pack(">qi", START, 0), json.dumps({"text": LONG}).encode())
    writer.send(topics["hours"], [long], home(b"berta", 2))
    sessions = [(b"anna" + struct.pack(">qq", START + 9, START), b'{"n":2}')]
    sessions += [(b"carl" + struct.pack(">qq", 10**16, START), b'{"n":4}')]
    writer.send(topics["visits"], sessions, 0)
    for name, (_, key) in {**FORMATS, "prices": ("string", b"tea")}.items():
        writer.send(topics[name], [(key, b'{"n":3}')])
    views = views_toml(
        things={"topic": topics["things"]},
        hours={"topic": topics["hours"], "store": "window", "window_size": "1h"},
        visits={"topic": topics["visits"], "store": "session", "partitioner": "none"},
        prices={"topic": topics["prices"], "store": "versioned", "retention": "365d"},
        **{name: {"topic": topics[name], "key": format_} for name, (format_, _) in FORMATS.items()},
    )
    folder = tmp_path_factory.mktemp("explore")
    with Deployment(folder, broker.bootstrap_servers, views, standby_replicas="1") as deployment:
        deployment.start(1)
        yield deployment


@pytest.fixture(scope="module")
def backend(deployment: Deployment) -> Backend:
    return deployment.all[0]


@pytest.fixture
def other(backend: Backend, deployment: Deployment) -> Backend:
    """Another instance; of the last test."""
    return deployment.new().launch()


@pytest.fixture
def page(backend: Backend, driver: webdriver.Chrome) -> Iterator[AdminPage]:
    with page_with_things(driver, backend.port) as page:
        yield page


def copied(page: AdminPage, form: str) -> str:
    press(page, f"Copy {form}")
    return page.text("#found .command")


def test_a_view_is_browsed_in_key_order_page_by_page(page: AdminPage) -> None:
    assert ask(page, "things", "scan", prefix="k0", limit="60") == "60 items"
    press(page, "Next page")
    page.wait(lambda: page.text("#found .badge") == "100 items", "the second page")
    rows = table(page)
    assert [row["key"] for row in rows] == [f"k{n:03}" for n in range(100)]
    assert rows[7]["value.n"] == "7"
    assert rows[7]["value.big"] == str(BIG), "no digit is rounded"
    assert json.loads(rows[7]["value.place"]) == {"x": [1, {"y": "ü"}]}
    assert ask(page, "things", "scan", **{"prefix": "", "from": "k120", "order": "desc"})
    assert table(page)[0]["key"] == "k129"


def test_a_statement_has_rows_cost_and_freshness(page: AdminPage) -> None:
    assert ask(page, "things", "sql") == "20 items", "of the statement that is there at first"
    assert table(page)[7]["big"] == str(BIG), "no digit is rounded"
    statement = "select n, key as k from things where n > 100 order by key desc limit 1005"
    assert ask(page, "things", "sql", statement=statement) == "29 items"
    assert [row["k"] for row in table(page)[:2]] == ["k129", "k128"]
    facts = page.text("#found .facts")
    assert "PlanscanExamined130Lag0" in facts
    assert ask(page, "things", "sql", explain="true") == "scan"
    assert "compared with n > 100" in page.text("#found .detail")
    assert "POST /sql" in page.text("#found .outcome")
    assert '-d \'{"query":"select n' in copied(page, "curl")
    assert ask(page, "hours", "sql", explain="") == "4 items"
    later = "start > timestamp '2013-01-01T00:30:00Z'"
    statement = f"select count(*) as entries from hours where {later}"
    assert ask(page, "hours", "sql", statement=statement) == "1 item"
    assert table(page)[0]["entries"] == "2"
    assert ask(page, "hours", "sql", statement="select") == "sql-unsupported"


def test_windows_sessions_and_versions_are_tables(page: AdminPage) -> None:
    assert ask(page, "hours", "windows", key="anna", limit="2") == "2 items"
    assert [row["start"] for row in table(page)] == [
        "2013-01-01T00:00:00.000Z",
        "2013-01-01T01:00:00.000Z",
    ]
    assert ask(page, "hours", "all-windows", limit="100") == "4 items"
    assert ask(page, "visits", "sessions", key="anna") == "1 item"
    assert table(page)[0]["end"] == "2013-01-01T00:00:00.009Z"
    assert ask(page, "prices", "versions", key="tea") == "1 item"
    assert table(page)[0]["valid_to"] == "null"
    assert ask(page, "prices", "get", key="tea", as_of="2001-01-01T00:00:00Z") != "found"
    assert ask(page, "visits", "all-sessions") == "2 items"
    assert ask(page, "visits", "sessions", key="carl") == "1 item"
    assert table(page)[0]["end"] == str(10**16), "no date can be so late"


def test_the_numbers_of_a_key_are_a_chart(page: AdminPage) -> None:
    def charts() -> list[str]:
        labels: list[str] = page.run(
            "return [...document.querySelectorAll('#found .chart canvas')].map("
            "(canvas) => canvas.getAttribute('aria-label'))"
        )
        return labels

    def shows(*labels: str) -> None:
        page.wait(lambda: charts() == list(labels), f"{labels}")

    assert ask(page, "hours", "windows", key="anna", limit="100") == "3 items"
    shows("value.n, 3, at most 3")
    Select(page.one("#found .chart-of select")).select_by_value("value.m")
    shows("value.m, 1.5, at most 1.5")
    assert ask(page, "visits", "sessions", key="anna") == "1 item"
    shows("value.n, 2, at most 2")
    assert ask(page, "prices", "versions", key="tea") == "1 item"
    shows("value.n, 3, at most 3")
    assert ask(page, "hours", "windows", key="berta") == "1 item"
    shows()
    assert ask(page, "hours", "all-windows", limit="100") == "4 items"
    assert charts() == [], "of several keys"


def test_an_item_is_shown_as_a_whole(page: AdminPage) -> None:
    assert ask(page, "hours", "windows", key="berta") == "1 item"
    assert LONG not in page.text("#found table"), "a cell is cut"
    page.one("[aria-label='Show item 1']").click()
    assert json.loads(page.text("#found .item pre"))["value"] == {"text": LONG}
    assert ask(page, "things", "scan", **{"prefix": "k007", "from": "", "limit": "1"}) == "1 item"
    page.one("[aria-label='Show item 1']").click()
    assert f'"big": {BIG}' in page.text("#found .item pre"), "no digit is rounded"
    press(page, "Tree")
    page.wait(lambda: page.run("return !!document.querySelector('#found .tree')"), "the tree")
    assert f"big: {BIG}" in page.text("#found .tree")


def test_count_top_and_aggregate(page: AdminPage) -> None:
    assert ask(page, "things", "count", exact="true") == "130"
    assert ask(page, "things", "top", by="n", limit="2") == "2 items"
    assert [row["key"] for row in table(page)] == ["k129", "k128"]
    bars = "return [...document.querySelectorAll('#found progress')].map((bar) => bar.value)"
    assert page.run(bars) == [100, 99.2]
    assert ask(page, "things", "aggregate", by="text", value="n") == "1 item"
    assert (table(page)[0]["entries"], table(page)[0]["max"]) == ("130", "129")
    assert page.run(bars) == [100]
    assert ask(page, "things", "top", by="nothing", limit="2") == "0 items"
    assert ask(page, "hours", "top-keys", by="n", order_by="max") == "1 item"
    assert (table(page)[0]["key"], table(page)[0]["value"]) == ("anna", "3")
    assert "/views/hours/top?by=n&order_by=max" in copied(page, "curl")
    assert ask(page, "prices", "get", key="tea", as_of="then") == "bad-parameter"


def test_a_value_as_a_tree_and_in_hexadecimal_digits(page: AdminPage) -> None:
    assert ask(page, "things", "get", key="k001") == "found"
    assert f'"big": {BIG}' in page.text("#found pre")
    press(page, "Tree")
    page.wait(lambda: page.run("return !!document.querySelector('#found .tree')"), "the tree")
    assert f"big: {BIG}" in page.text("#found .tree")
    assert 'y: "ü"' in page.text("#found .tree")
    press(page, "Hex")
    page.wait(lambda: page.run("return !!document.querySelector('#found .value pre')"), "the bytes")
    assert page.text("#found pre").startswith("000000  7b 22 6e 22 3a")


def test_the_address_reproduces_the_page(page: AdminPage, driver: webdriver.Chrome) -> None:
    assert ask(page, "things", "get", key="odd/ key") == "not found"
    assert re.search(r"\?view=things&query=get&key=odd%2F\+key$", driver.current_url)
    assert ask(page, "things", "scan", prefix="k12", limit="3") == "3 items"
    link = copied(page, "link")
    driver.get("about:blank")
    driver.get(link)
    page.wait(lambda: page.run("return document.querySelector('#found .badge')"), "the answer")
    assert [row["key"] for row in table(page)] == ["k120", "k121", "k122"]
    driver.get(link.partition("?")[0] + "?view=things&key=k005")
    page.wait(lambda: page.run("return document.querySelector('#found pre')"), "the answer")
    assert '"n": 5' in page.text("#found pre")


@pytest.mark.parametrize("key", ["k001", "odd/ key '$x'", "."])
def test_what_is_copied_gives_the_same_answer(page: AdminPage, key: str, tmp_path: Path) -> None:
    outcome = ask(page, "things", "get", key=key)
    curl, python = copied(page, "curl"), copied(page, "Python")
    console = copied(page, "console")
    assert ("/keys/k001" in curl) is (key == "k001"), "the path is readable if it can be"
    answered = json.loads(run(["bash", "-c", f"{curl} -s"]))
    assert ("value" in answered) is (outcome == "found")
    script = tmp_path / "copied.py"
    script.write_text(python)
    printed = run([sys.executable, str(script)])
    assert ("'n': 1" in printed) is (outcome == "found")
    command = [str(Path(sys.executable).with_name("queryable")), *shlex.split(console)[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (outcome == "found"), done.stderr
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize(
    ("view", "key"),
    [
        ("numbers", "7"),
        ("numbers", "007"),
        ("doubles", "250"),
        ("doubles", "2.5e2"),
        ("binary", "ü 1"),
        ("documents", '{"id": 1}'),
    ],
)
def test_copied_python_has_the_key_in_the_type_of_its_view(
    page: AdminPage, view: str, key: str, tmp_path: Path
) -> None:
    assert ask(page, view, "get", key=key) == "found"
    script = tmp_path / "copied.py"
    script.write_text(copied(page, "Python"))
    assert "'n': 3" in run([sys.executable, str(script)])
    if view == "documents":
        return  # the client writes the documents of bounds in its own way
    assert ask(page, view, "scan", **{"from": key, "to": key}) == "1 item"
    script.write_text(copied(page, "Python"))
    assert "'n': 3" in run([sys.executable, str(script)])


def run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_items_are_downloaded(page: AdminPage) -> None:
    assert ask(page, "things", "scan", prefix="k00", limit="100") == "10 items"
    page.run(
        """window.files = [];
        URL.createObjectURL = (blob) => { window.files.push(blob); return "#"; };"""
    )
    press(page, "Download CSV")
    press(page, "Download NDJSON")
    read = "Promise.all(window.files.map((file) => file.text())).then(arguments[0])"
    as_csv, lines = page.driver.execute_async_script(read)
    rows: list[dict[str, Any]] = list(csv.DictReader(StringIO(as_csv)))
    assert [row["key"] for row in rows] == [f"k{n:03}" for n in range(10)]
    assert rows[3]["value.text"] == '\'=1,"a"', "no spreadsheet takes it for a formula"
    items = [json.loads(line) for line in lines.splitlines()]
    assert items[3] == {
        "key": "k003",
        "value": {"n": 3, "place": {"x": [1, {"y": "ü"}]}, "big": BIG, "text": '=1,"a"'},
    }


def test_a_key_is_followed(page: AdminPage, broker: Broker, topics: dict[str, str]) -> None:
    assert ask(page, "things", "watch", key="k050")
    page.wait(lambda: page.text("#found .badge") == "following", "the stream")
    page.wait(lambda: len(table(page)) == 1, "the current value")
    Writer(broker.bootstrap_servers).table(topics["things"], {"k050": {"n": "new"}})
    page.wait(lambda: len(table(page)) == 2, "the change")
    assert json.loads(table(page)[0]["Value"]) == {"n": "new"}
    assert ask(page, "things", "count"), "another query ends it"


def test_the_answers_of_all_replicas_are_side_by_side(
    page: AdminPage, backend: Backend, other: Backend
) -> None:
    backend.wait_ready(2)
    page.wait(lambda: len(page.instances()) == 2, "both instances")

    def compared(key: str) -> list[tuple[str, list[str]]]:
        """Of each replica: its name and role, and the lines that are marked."""
        assert ask(page, "things", "get", key=key)
        return differences()

    def differences() -> list[tuple[str, list[str]]]:
        press(page, "Compare replicas")
        read = (
            "return [...document.querySelectorAll('.replica')].map((r) => [r.children[0].innerText,"
            " [...r.querySelectorAll('mark')].map((mark) => mark.textContent)])"
        )
        page.wait(lambda: len(page.run(read)) == 2, "both replicas")
        return [(name, marked) for name, marked in page.run(read)]

    shown = compared("k007")
    assert {name.split()[1] for name, _ in shown} == {"active", "standby"}
    assert {name.split()[0] for name, _ in shown} == {backend.id, other.id}
    assert [marked for _, marked in shown] == [[], []]
    assert "have the same" in page.text(".replicas .badge")
    assert page.text(".replica pre").count(str(BIG)) == 1, "no digit is rounded"
    assert [marked for _, marked in compared("nothing")] == [[], []]
    assert ask(page, "hours", "windows", key="anna", limit="100") == "3 items"
    assert [marked for _, marked in differences()] == [[], []]
    for n in (0, 1):
        text = page.run(f"return document.querySelectorAll('.replica pre')[{n}].textContent")
        assert [window["value"]["n"] for window in json.loads(text)] == [1, 2, 3]
    page.run(
        """const send = window.fetch;
        window.fetch = async (path, ...more) => {
          const answer = await send(path, ...more);
          if (!String(path).includes("/replicas")) return answer;
          const parts = (await answer.text()).split(/"n": ?7,/);
          return new Response(`${parts[0]}"n":7,${parts[1]}"n":8,"m":1,${parts[2]}`);
        };"""
    )
    differ = [[line.strip() for line in marked] for _, marked in compared("k007")]
    assert differ == [['"n": 7,'], ['"n": 8,', '"m": 1,']], "what not all of them have is marked"
    page.driver.refresh()
    page.wait(lambda: len(page.instances()) == 2, "both instances")
    # one of them hangs
    active = shown[0][0].split()[0]
    standby = other if active == backend.id else backend
    if standby is other:
        with standby.paused():
            found = compared("k007")
            assert found[1][1], "what differs is marked"
            assert "differ" in page.text(".replicas .badge")
    answer = backend.get("/admin/views/things/replicas?key=azAwNw&encoding=base64url").json()
    assert [each["document"]["key"] for each in answer["replicas"]] == ["k007"] * 2
    assert backend.get("/admin/views/things/replicas").code == "bad-parameter"
