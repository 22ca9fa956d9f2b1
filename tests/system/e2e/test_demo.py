"""The main job, end to end: real flights, Spark, three backends and nginx, asked from outside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from local import http
from local.demo.datasets import flight_rows
from local.demo.expected import latest_departures
from local.demo.verify import verify
from local.ports import LOOPBACK, free_ports, is_free
from local.processes import spawn
from local.waiting import wait_until
from tests.support.backends import COMMAND
from tests.support.docs_examples import examples_run_by
from tests.system.e2e.asking import Answer, ask_all
from tests.system.e2e.demo import ALL_VIEWS, ROOT, AccessLog, Demo
from tests.system.e2e.derived_views import verify_more

ODD_KEYS = (
    "a/b", "a%2Fb", "%", "100%", " ", "two words", "naïve", "日本", "processors", "views",
    "a?b=c", "a#b", "a+b", "..x", ";", "\t", "'\"<b>", "windows", "x" * 3000,
)  # fmt: skip


@pytest.fixture(scope="module")
def aircraft() -> list[str]:
    """Every aircraft that ever departed."""
    return list(latest_departures(flight_rows()))


def test_all_answers_through_the_proxy_are_those_of_the_raw_data(demo: Demo) -> None:
    findings = verify(demo.url, demo.servers)
    assert findings.differences == []
    assert findings.checked > 10_000


@pytest.mark.skipif(not ALL_VIEWS, reason="E2E_ALL_VIEWS=1")
def test_every_departure_and_destination_is_that_of_the_raw_data(demo: Demo) -> None:
    findings = verify_more(demo.url, demo.servers)
    assert findings.differences == []
    assert findings.checked > 300_000
    top = http.get(f"{demo.url}/views/airports/top?by=count&limit=2")
    assert [item["key"] for item in json.loads(top.body)["items"]] == ["ATL", "ORD"]


def test_the_views_of_the_access_log_are_what_it_says(demo: Demo) -> None:
    http.get(f"{demo.url}/words/lambda")
    log = demo.run_dir / "nginx" / "logs" / "access.log"
    host = LOOPBACK
    # asked directly: what goes through the proxy would change the answer
    backend = f"http://{LOOPBACK}:{demo.backend_ports[0]}"

    def value(path: str) -> Any:
        return json.loads(http.get(backend + path).body)

    def told() -> bool:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        requests, size = len(lines), sum(line["bytes"] for line in lines)
        if not ALL_VIEWS:
            return bool(value(f"/requests/{host}").get("value") == requests)
        windows = value(f"/requests-per-minute/{host}/windows?limit=1000").get("items", ())
        sizes = value(f"/bytes-per-minute/{host}/windows?limit=1000").get("items", ())
        visits = value(f"/visits/{host}/sessions").get("items", ())
        minutes = Counter(line["time"][:16] for line in lines)
        return (
            value(f"/requests/{host}").get("value") == requests
            and value(f"/bytes/{host}").get("value") == size
            and sorted(window["value"] for window in windows) == sorted(minutes.values())
            and sum(window["value"] for window in sizes) == size
            and len(sizes) == len(windows)
            and [visit["value"] for visit in visits] == [{"requests": requests, "bytes": size}]
        )

    wait_until(told, 60, "the views to be what the access log says", 0.5)


def test_every_backend_gives_every_key_the_same_bytes(demo: Demo, aircraft: list[str]) -> None:
    through_proxy = ask_all(f"{demo.url}/messages", aircraft)
    assert {answer.status for answer in through_proxy.values()} == {200}
    some = aircraft[::5]
    expected = _contents({key: through_proxy[key] for key in some})
    for port in demo.backend_ports:
        for path in ("messages", "views/latest-departure/keys"):
            directly = ask_all(f"http://{LOOPBACK}:{port}/{path}", some)
            assert _contents(directly) == expected


def test_the_proxy_asks_the_owner_of_every_key(demo: Demo, aircraft: list[str]) -> None:
    def lines_of_owners() -> list[dict[str, Any]]:
        """The access log of a read of each key, if the owners have answered all of them: on a busy
        machine, a standby answers for an owner that does not answer in time."""
        log = AccessLog(demo)
        answers = ask_all(f"{demo.url}/messages", aircraft)
        owners = _owners(demo, "latest-departure")
        lines = log.lines(len(aircraft), "/messages/")
        served = all(a.served_by == owners[int(a.partition or -1)] for a in answers.values())
        return lines if served else []

    lines = wait_until(lines_of_owners, 30, "the owners to answer")
    assert len(lines) == len(aircraft)
    assert _share_asked_directly(lines) == 1.0
    assert {line["owner"] for line in lines} == {"b1", "b2", "b3"}


def test_odd_keys_work_through_the_proxy_and_directly(demo: Demo) -> None:
    producer = Producer({"bootstrap.servers": demo.servers, "partitioner": "murmur2_random"})
    for number, key in enumerate(ODD_KEYS):
        producer.produce("flights", key=key.encode(), value=json.dumps({"odd": number}))
    assert producer.flush(20) == 0
    wanted = {key: {"key": key, "value": {"odd": n}} for n, key in enumerate(ODD_KEYS)}

    def arrived() -> bool:
        answers = ask_all(f"{demo.url}/flights", ODD_KEYS)
        return all(answer.status == 200 for answer in answers.values())

    wait_until(arrived, 20, "the odd keys to arrive")
    for base in (demo.url, *(f"http://{LOOPBACK}:{port}" for port in demo.backend_ports)):
        for path in ("/flights", "/views/flights/keys"):
            answers = ask_all(base + path, ODD_KEYS)
            assert {key: json.loads(a.body) for key, a in answers.items()} == wanted
        misses = ask_all(base + "/flights", [key + "/no" for key in ODD_KEYS])
        assert {answer.status for answer in misses.values()} == {404}

    def are_asked_directly() -> bool:
        log = AccessLog(demo)
        ask_all(f"{demo.url}/flights", ODD_KEYS)
        return _share_asked_directly(log.lines(len(ODD_KEYS), "/flights/")) == 1.0

    # on a busy machine, a standby answers for an owner that does not answer in time
    wait_until(are_asked_directly, 30, "the owners to answer")


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("/views", "application/json"),
        ("/views/latest-departure", "application/json"),
        ("/processors", "application/json"),
        ("/health/ready", "application/json"),
        ("/health/live", "application/json"),
        ("/admin", "text/html"),
        ("/admin/topology.json", "application/json"),
    ],
)
def test_pages_are_there_through_the_proxy_and_directly(demo: Demo, path: str, type_: str) -> None:
    for port in (demo.proxy_port, demo.backend_ports[1]):
        epochs = {demo.topology()["epoch"]}
        answer = http.get(f"http://{LOOPBACK}:{port}{path}")
        assert answer.status == 200, answer
        assert answer.headers["content-type"].startswith(type_)
        # an instance may have joined again meanwhile
        assert answer.headers["topology-epoch"] in epochs | {demo.topology()["epoch"]}


def test_metrics_are_those_of_each_instance(demo: Demo) -> None:
    proxy = f"http://{LOOPBACK}:{demo.proxy_port}"
    assert http.get(f"{proxy}/metrics").status == 421
    targets = json.loads(http.get(f"{proxy}/metrics/targets").body)
    assert len(targets) == len(demo.backend_ports) + 1
    for each in targets:
        [address], labels = each["targets"], each["labels"]
        answer = http.get(f"{labels['__scheme__']}://{address}{labels['__metrics_path__']}")
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain")


def test_the_readmes_examples_answer_as_it_says(demo: Demo) -> None:
    readme = (ROOT / "README.md").read_text()
    examples = re.findall(r"^\$ curl (?:-i )?http://127\.0\.0\.1:8080(\S+)\n(.*?)^(?=\$|```)",
                          readme, re.M | re.S)  # fmt: skip
    assert len(examples) >= 3
    for path, shown in examples:
        answer = http.get(demo.url + path)
        body = re.sub(r"\n +", "", shown.strip())  # long JSON is shown on several lines
        wanted = json.loads(body.splitlines()[-1])
        found = json.loads(answer.body)
        for varying in ("detail",):  # it tells offsets, which depend on Spark's micro-batches
            assert (wanted.pop(varying, None) is None) == (found.pop(varying, None) is None)
        assert found == wanted
        for name in re.findall(r"^([A-Z][A-Za-z-]+): ", shown, re.M):
            assert name.lower() in answer.headers, name


def test_an_appended_text_changes_the_counts_of_its_words(demo: Demo) -> None:
    """The commands of the quick start. They change an answer that other tests compare."""
    append, read = examples_run_by(Path(__file__), ROOT / "docs" / "quick-start.md")

    def run(command: str) -> str:
        command = command.replace("http://127.0.0.1:8080", demo.url)
        return subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=30, check=True
        ).stdout

    assert json.loads(run(append.command)).keys() == json.loads(append.shown).keys()
    wait_until(lambda: run(read.command).strip() == read.shown, 60, "the count", 0.2)


def test_the_job_follows_the_commands_of_the_console(demo: Demo) -> None:
    """Those of docs/spark/operations.md."""

    def pipeline(*arguments: str) -> Any:
        command = [sys.executable, "-m", "queryable", "pipeline", "word-count", *arguments]
        environment = {**os.environ, "QUERYABLE_URL": demo.url, "QUERYABLE_CONFIG": "/dev/null"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def count() -> int:
        answer = http.get(f"{demo.url}/words/zyzzyva")
        return 0 if answer.status == 404 else int(json.loads(answer.body)["value"])

    assert count() == 0
    state = pipeline()
    assert (state["state"], state["error"]) == ("running", None)
    assert state["stats"]["input_rows"] > 0
    assert state["stats"]["state_rows"] > 0
    assert pipeline("pause")["done"] is True
    producer = Producer({"bootstrap.servers": demo.servers, "partitioner": "murmur2_random"})
    producer.produce("texts", key=b"another", value=b"zyzzyva")
    assert producer.flush(20) == 0
    wait_until(lambda: pipeline()["lag"] == 1, 30, "the lag of the paused view")
    assert pipeline()["state"] == "paused"
    assert count() == 0
    assert pipeline("resume")["done"] is True
    wait_until(lambda: count() == 1, 60, "the word to be counted")
    assert pipeline("rebuild", "--yes")["done"] is True
    wait_until(lambda: pipeline()["lag"] == 0, 60, "the end of the rebuild")
    wait_until(lambda: count() == 1, 60, "the same count as before")


def test_the_proxy_follows_a_backend_that_comes_and_one_that_goes(
    demo: Demo, aircraft: list[str]
) -> None:
    [port] = free_ports(1)
    before = demo.topology()["epoch"]
    false_answers: list[tuple[str, int, bytes]] = []
    stop = threading.Event()

    def keep_reading() -> None:
        while not stop.is_set():
            for key, answer in ask_all(f"{demo.url}/messages", aircraft[:200]).items():
                if answer.status not in (200, 503):
                    false_answers.append((key, answer.status, answer.body))
            stop.wait(0.1)

    reader = threading.Thread(target=keep_reading, name="reader")
    added = spawn(
        COMMAND,
        demo.run_dir / "logs" / "backend-added.log",
        env={
            **os.environ,
            "QUERYABLE_BOOTSTRAP_SERVERS": demo.servers,
            "QUERYABLE_INSTANCE_ID": "b4",
            "QUERYABLE_PORT": str(port),
            "QUERYABLE_DATA_DIR": str(demo.run_dir / "added"),
            "QUERYABLE_CLUSTER_SECRET_FILE": str(demo.run_dir / "cluster-secret"),
        },
        cwd=ROOT,
    )
    reader.start()
    try:
        _wait_for_members(demo, {"b1", "b2", "b3", "b4"}, aircraft)
        added.terminate()
        _wait_for_members(demo, {"b1", "b2", "b3"}, aircraft)
        log = AccessLog(demo)
        answers = ask_all(f"{demo.url}/messages", aircraft)
        stop.set()
        reader.join(30)
        assert false_answers == []
        assert Counter(answer.status for answer in answers.values()) == {200: len(aircraft)}
        assert {answer.served_by for answer in answers.values()} == {"b1", "b2", "b3"}
        assert _share_asked_directly(log.lines(len(aircraft), "/messages/")) >= 0.99
        ms, generation = map(int, demo.topology()["epoch"].split("-"))
        assert (ms, generation) > tuple(map(int, before.split("-")))
    finally:
        stop.set()
        reader.join(30)
        added.terminate()
        added.wait(30)


def test_ctrl_c_ends_every_child(demo: Demo) -> None:
    """The last test of this folder: it ends the demo."""
    pids = demo.pids()
    assert {
        "broker",
        "spark",
        "nginx",
        "tailer",
        "backend-1",
        "backend-2",
        "backend-3",
    } <= pids.keys()
    assert demo.interrupt() == 0
    assert [name for name, pid in pids.items() if Path(f"/proc/{pid}").exists()] == []
    for port in (demo.proxy_port, demo.broker_port, *demo.backend_ports):
        assert is_free(port)


def _contents(answers: dict[str, Answer]) -> dict[str, tuple[int, bytes, str | None, str | None]]:
    return {key: answer.content for key, answer in answers.items()}


def _owners(demo: Demo, view: str) -> dict[int, str]:
    return {
        partition: processor["id"]
        for processor in demo.topology()["processors"]
        for partition in processor["topicPartitions"][view]
    }


def _share_asked_directly(lines: list[dict[str, object]]) -> float:
    """Of requests through nginx: those that one attempt brought to who answered."""
    good = sum(
        line["attempts"] == 1 and line["served_by"] == f"{line['owner']}; active" for line in lines
    )
    return good / len(lines)


def _wait_for_members(demo: Demo, members: set[str], aircraft: list[str]) -> None:
    """Until the map that the proxy gives has these, and every key is answered by one of them."""
    # before all are asked: most rounds come too early
    few = aircraft[:20]

    def settled() -> bool:
        answer = http.get(f"{demo.url}/processors")
        if answer.status != 200:
            return False
        if {p["id"] for p in json.loads(answer.body)["processors"]} != members:
            return False
        return all(
            a.status == 200 and a.served_by in members
            for keys in (few, aircraft)
            for a in ask_all(f"{demo.url}/messages", keys).values()
        )

    wait_until(settled, 60, f"the members to be {sorted(members)}", 0.3)
