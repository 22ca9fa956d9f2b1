"""The admin page in a real browser, on two real backends."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from selenium import webdriver

from local.kafka.broker import Broker
from tests.support.backends import Backend
from tests.support.browser import AdminPage
from tests.support.deployment import Deployment, views_toml
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import commit_offsets

ODD = "<img src=x onerror=alert(1)>"
ODD_VALUE = {"html": "<script>alert(2)</script><b>bold</b>", "quote": '"\\', "none": None}
BIG = 2**63 - 1  # JavaScript numbers are exact up to 2^53
PARTITIONS = 4


@pytest.fixture(scope="module")
def backends(
    broker: Broker, make_topic: MakeTopic, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Backend]]:
    things, numbers = make_topic(PARTITIONS), make_topic(2)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for n in range(40):
        producer.produce(things, key=f"thing {n}/ä", value=json.dumps({"n": n, "tags": ["ü", []]}))
    producer.produce(things, key=ODD, value=json.dumps(ODD_VALUE))
    producer.produce(things, key="not JSON", value="{")
    producer.produce(numbers, key=struct.pack(">q", -7), value=struct.pack(">q", BIG))
    assert producer.flush(20) == 0
    # the job has stopped before it read a record
    job = f"job-{things}"
    stats = {"batch_ms": 250, "state_rows": 1500, "watermark": 1_700_000_000_000}
    stats["processed_rate"] = 0.2
    ended = json.dumps(
        {"state": "stopped", "at": 1_700_000_000_000, "error": "no memory", "stats": stats}
    )
    commits = [TopicPartition(things, p, 0) for p in range(1, PARTITIONS)]
    commits.append(TopicPartition(things, 0, 0, metadata=ended))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    commit_offsets(admin, job, commits)
    views = views_toml(
        things={"topic": things, "description": "Things that are <b>found</b>."},
        numbers={"topic": numbers, "key": "int64", "value": "int64", "pipeline": job},
    )
    folder = tmp_path_factory.mktemp("admin")
    with Deployment(folder, broker.bootstrap_servers, views) as deployment:
        yield deployment.start(2)


@pytest.fixture
def page(backends: list[Backend], driver: webdriver.Chrome) -> Iterator[AdminPage]:
    page = AdminPage(driver, backends[0].port)
    page.wait(lambda: len(page.grid("things")) == PARTITIONS, "the grid")
    yield page
    assert page.console() == []


def test_the_grid_shows_every_partition_with_its_owner(
    page: AdminPage, backends: list[Backend]
) -> None:
    topology = backends[0].processors()
    for view, count in (("things", PARTITIONS), ("numbers", 2)):
        owners = {
            partition: processor["id"]
            for processor in topology["processors"]
            for partition in processor["topicPartitions"][view]
        }
        grid = page.grid(view)
        assert {partition: tile["owner"] for partition, tile in grid.items()} == owners
        assert sorted(grid) == list(range(count))
        assert {tile["state"] for tile in grid.values()} == {"answerable"}
        assert {tile["how"] for tile in grid.values()} == {"lag 0"}
    assert page.text("[aria-label='View things'] .description") == "Things that are <b>found</b>."
    grid = page.grid("things")
    assert len({(tile["owner"], tile["colour"]) for tile in grid.values()}) == 2
    assert len({tile["colour"] for tile in grid.values()}) == 2
    # the members report what their stores have shown, so the group may rebalance once more
    page.wait(lambda: page.text("#epoch") == backends[0].processors()["epoch"], "the last epoch")


def test_the_instances_and_the_numbers_of_a_partition(
    page: AdminPage, backends: list[Backend]
) -> None:
    instances = page.instances()

    assert set(instances) == {backend.id for backend in backends}
    for backend in backends:
        card = instances[backend.id]
        assert card["state"] == "running"
        assert card["address"] == f"127.0.0.1:{backend.port}"
        assert (
            card["Partitions"] == card["Answerable"] == str(len(backend.instance()["partitions"]))
        )
        assert card["Lag"] == "0"
        assert card["Version"] == version("queryable-topics")
        assert re.fullmatch(r"\d+ (s|min)", card["Up for"])
        assert re.fullmatch(r"\d+ MB", card["Memory"])
        assert card["Free disk"].endswith(("GB", "TB"))
        assert int(card["Threads"]) > 3
        assert re.fullmatch(r"\d+(\.\d)?/s", card["Requests"])
    assert re.fullmatch(r"\d+(\.\d)? ms", instances[backends[0].id]["p99"])
    assert sum(int(card["Dead letters"]) for card in instances.values()) == 1
    assert page.text(".warnings [data-code='dead-letters']").startswith("dead-letters")

    # with the keyboard, as with the pointer
    page.run("document.querySelectorAll('.view .partition')[2].focus()")
    numbers = page.facts(".view .pointed")
    shown = {p["partition"]: p for backend in backends for p in backend.partitions("things")}[2]
    assert (numbers["Partition"], numbers["Position"]) == ("2", str(shown["position"]))
    assert numbers["Standby"] == "none"


def test_a_dead_letter_is_shown_with_its_reason(page: AdminPage, backends: list[Backend]) -> None:
    page.one(".warnings [data-code='dead-letters'] button").click()
    rows = "return [...document.querySelectorAll('#letters tbody tr')].map((r) => r.innerText)"
    page.wait(lambda: page.run(rows), "the dead letter")
    [row] = page.run(rows)
    assert "not JSON" in row
    assert "backend/things" in row
    assert "1 × " in page.text("#letters ul"), "how often the reason is there"
    assert "The newest 1 of topic" in page.text("#letters-said")
    page.one("#letters-close").click()
    assert not page.one("#letters").is_displayed()

    answer = backends[1].get("/admin/views/things/dead-letters?limit=1").json()
    [item] = answer["items"]
    assert (item["key"], item["value"]) == ({"text": "not JSON"}, {"text": "{"})
    assert item["offset"] >= 0
    assert item["reason"] == answer["reasons"][0]["reason"]
    assert backends[1].get("/admin/views/numbers/dead-letters").json()["items"] == []
    for limit in ("0", "1001", "x"):
        wrong = backends[1].get(f"/admin/views/things/dead-letters?limit={limit}")
        assert (wrong.status, wrong.code) == (400, "bad-parameter")


def test_a_stopped_job_is_shown(page: AdminPage, backends: list[Backend]) -> None:
    """It is shown although the lag of the view is 0."""

    def told_there() -> str:
        return str(backends[0].get("/views/numbers").json()["pipeline"]["state"])

    backends[0].wait(lambda: told_there() == "stopped", "the stop")
    warning = ".warnings [data-code='pipeline-stopped']"
    page.wait(lambda: page.driver.find_elements("css selector", warning), "the warning")
    text = page.text(warning)
    assert "has stopped, 42 records behind its sources: no memory." in text
    totals = page.totals()
    assert totals["Pipelines running"] == "0 of 1"
    numbers = next(n for n in (1, 2) if page.text(f".view:nth-child({n}) h3") == "numbers")
    facts = page.facts(f".view:nth-child({numbers}) .pointed")
    assert (facts["Pipeline"], facts["Pipeline lag"], facts["Lag"]) == ("stopped", "42", "0")
    shown = facts["Micro-batch"], facts["Rows of state"], facts["Watermark"]
    assert shown == ("0.3 s", "1,500", "2023-11-14T22:13:20.000Z")
    assert "Late records" not in facts, "it reports none"
    assert facts["A rebuild takes"] == "about 4 min", "42 records at 0.2 records/s"
    assert "Pipeline done in" not in facts, "it does not run"
    answer = page.look_up("numbers", "-7")
    assert (answer["Pipeline lag"], answer["Pipeline state"]) == ("42", "stopped")


def test_a_look_up_shows_the_partition_of_the_key(page: AdminPage, backends: list[Backend]) -> None:
    answers = {n: page.look_up("things", f"thing {n}/ä") for n in range(3)}

    for n, answer in answers.items():
        direct = backends[1].get(f"/views/things/keys/thing%20{n}%2F%C3%A4")
        assert answer["outcome"] == "found"
        assert answer["Partition"] == direct.headers["Partition"]
        assert answer["Owner"] == direct.headers["Served-By"]
        assert answer["Owner"].startswith(page.grid("things")[int(answer["Partition"])]["owner"])
        assert (answer["Offset"], answer["Lag"]) == (direct.headers["Offset"], "0")
        assert answer["value"] == json.dumps(
            {"n": n, "tags": ["ü", []]}, indent=2, ensure_ascii=False
        )
    marked = page.run("return document.querySelector('[data-marked]').dataset.partition")
    assert marked == answers[2]["Partition"]


def test_markup_in_keys_and_values_stays_text(page: AdminPage) -> None:
    answer = page.look_up("things", ODD)

    assert answer["outcome"] == "found"
    assert json.loads(answer["value"]) == ODD_VALUE
    assert (
        page.run("return document.querySelectorAll('#found img, #found script, pre *').length") == 0
    )
    assert page.look_up("things", ODD + ODD)["outcome"] == "not found"
    assert page.no_dialog()


def test_a_missing_key(page: AdminPage) -> None:
    answer = page.look_up("things", "nothing")

    assert (answer["outcome"], answer["Status"], answer["value"]) == ("not found", "404", None)
    assert "has no such key, as of offset" in answer["detail"]
    assert answer["Partition"] in {str(partition) for partition in range(PARTITIONS)}


def test_numeric_keys(page: AdminPage) -> None:
    assert page.look_up("numbers", "-7")["value"] == str(BIG)

    answer = page.look_up("numbers", "seven")
    assert (answer["outcome"], answer["Status"]) == ("key-undecodable", "400")
    assert "not a decimal int64" in answer["detail"]


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_the_window(page: AdminPage, width: int) -> None:
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        page.look_up("things", ODD)
        root = "document.documentElement"
        assert page.run(f"return {root}.scrollWidth - {root}.clientWidth") == 0
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_last_hour_is_the_same_from_every_instance(
    page: AdminPage, backends: list[Backend]
) -> None:
    def histories() -> list[dict[str, Any]]:
        return [backend.get("/admin/history").json() for backend in backends]

    def same() -> list[dict[str, Any]] | None:
        # a step may have ended between the two requests
        one, other = histories()
        return [one, other] if one["samples"] and one == other else None

    one, _ = page.wait(same, "the same samples")
    assert one["instances"] == [backend.id for backend in backends]
    assert {len(sample) for sample in one["samples"]} == {6}
    own = backends[0].get("/admin/history?of=instance").json()
    assert own["id"] == backends[0].id
    charts = "return [...document.querySelectorAll('.chart')].map((chart) => [chart.dataset.title,"
    charts += " chart.querySelector('canvas').getAttribute('aria-label')])"

    def caught_up() -> dict[str, str] | None:
        # in its first step, an instance catches up
        labels: dict[str, str] = dict(page.run(charts))
        return labels if labels.get("Lag", "").startswith("Lag, 0 records") else None

    shown = page.wait(caught_up, "a step without lag")
    assert list(shown) == ["Lag", "Ingest", "Requests", "Errors (5xx)", "p99"]
    assert shown["Requests"].endswith(tuple("0123456789"))
    rows = "return [...document.querySelectorAll('#rebalances tbody tr')].map((r) => r.innerText)"
    newest = page.run(rows)[0]
    assert one["rebalances"][0]["epoch"] in newest
    joined = {id_ for each in one["rebalances"] for id_ in each["joined"]}
    assert joined == {backend.id for backend in backends}
    assert sum(each["moved"].get("things", 0) for each in one["rebalances"]) >= PARTITIONS


def test_a_hidden_page_sends_no_requests(page: AdminPage) -> None:
    hide = """Object.defineProperty(document, "hidden", {value: arguments[0], configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));"""
    page.run(hide, True)
    page.wait(lambda: page.text("#live-text") == "paused", "that it is paused")
    page.run(hide, False)
    asked = page.refreshes()
    page.wait(lambda: page.text("#live-text").startswith("live"), "that it goes on")
    page.wait(lambda: page.refreshes() > asked + 1, "that it refreshes itself")


def test_the_page_shows_a_failover_and_a_missing_backend(
    page: AdminPage, backends: list[Backend]
) -> None:
    first, second = backends
    before = page.text("#epoch")
    second.kill()

    def taken_over() -> bool:
        tiles = [*page.grid("things").values(), *page.grid("numbers").values()]
        return {(tile["owner"], tile["state"]) for tile in tiles} == {(first.id, "answerable")}

    page.wait(taken_over, "that the other instance has all partitions")
    # the topology no longer has it, but the page shows it
    page.wait(lambda: page.instances()[second.id]["state"] == "lost", "that it is lost")
    assert set(page.instances()) == {first.id, second.id}
    assert page.text("#epoch") > before
    assert not page.one("#alert").is_displayed()

    first.kill()
    page.wait(lambda: page.one("#alert").is_displayed(), "that nobody answers")
    assert "does not answer" in page.text("#alert")
    assert page.text("#live-text") == "no answer"
    assert page.look_up("things", "nothing")["outcome"] == "no answer"
