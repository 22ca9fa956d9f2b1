"""Global views: every instance has all partitions, and answers without other instances."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

from tests.support.backends import Backend
from tests.support.client import Client, Response, key_path
from tests.support.deployment import settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

PARTITIONS = 6
TABLE = {f"key {n}": n for n in range(60)}
PATHS = {key_path("everywhere", key): value for key, value in TABLE.items()}
WHOLE = (
    "/views/everywhere/keys?limit=1000",
    "/views/everywhere/count?exact=true",
    "/views/everywhere/top?by=n&limit=1000",
)
# a key may be in any partition: other kinds ask all instances
ANYWHERE = [key_path("anywhere", key) for key in TABLE]


def judge(*refusals: str) -> Callable[[str, Response], str]:
    """The right value, or a 503 with one of these codes."""

    def right(path: str, answer: Response) -> str:
        if answer.status == 503:
            return "" if answer.code in refusals else f"503 {answer.code}"
        found = answer.status == 200 and answer.json()["value"] == {"n": PATHS[path]}
        return "" if found else "no or a wrong answer"

    return right


def placement(backend: Backend, role: str) -> dict[str, list[int]]:
    """Instance -> partitions of the global view in a role, as the backend's topology says."""
    return {
        p["id"]: p[f"{role}Partitions"]["everywhere"] for p in backend.processors()["processors"]
    }


def check_reads_alone(backend: Backend) -> None:
    """It answers everything itself, and says in which role."""
    active = placement(backend, "topic")[backend.id]
    with Client(backend.port) as client:
        for path, value in PATHS.items():
            answer = client.get(path)
            assert (answer.status, answer.json()["value"]) == (200, {"n": value}), answer
            role = "active" if int(answer.headers["Partition"]) in active else "standby"
            assert answer.headers["Served-By"] == f"{backend.id}; {role}"
        for path in (*WHOLE, *ANYWHERE):
            answer = client.get(path)
            assert answer.status == 200, answer
            assert readers(answer) == {backend.id}, path
        [page, count, top] = [client.get(path).json() for path in WHOLE]
        assert [item["key"] for item in page["items"]] == sorted(TABLE)
        assert count == {"count": len(TABLE), "exact": True}
        assert sorted(item["value"]["n"] for item in top["items"]) == sorted(TABLE.values())
        body = json.dumps({"keys": list(TABLE)}).encode()
        batch = client.request("POST", "/views/everywhere/batch", body)
        assert readers(batch) == {backend.id}


def readers(answer: Response) -> set[str]:
    return {each.split(";")[0] for each in answer.headers["Served-By"].split(", ")}


def redundancy(backend: Backend) -> Any:
    return backend.get("/health/ready").json()["redundancy"]


def test_three_instances(deploy: Deploy, make_topic: MakeTopic, writer: Writer) -> None:
    topic, other = make_topic(PARTITIONS), make_topic(PARTITIONS)
    writer.table(topic, {key: {"n": n} for key, n in TABLE.items()})
    writer.table(other, {key: {"n": n} for key, n in TABLE.items()})
    deployment = deploy(
        views_toml(
            everywhere={"topic": topic, "store": "global"},
            anywhere={"topic": other, "store": "global", "partitioner": "none"},
            plain={"topic": topic},
        ),
        standby_replicas="0",
        copy_threshold="1",
    )
    backends = deployment.start(3)
    first, second, third = backends

    # all have all, and each is active for a third; views of other kinds have no standbys
    every = list(range(PARTITIONS))
    active, standby = placement(first, "topic"), placement(first, "standby")
    for backend in backends:
        assert len(active[backend.id]) == PARTITIONS // 3
        assert sorted(active[backend.id] + standby[backend.id]) == every
        held = backend.partitions("everywhere")
        assert sorted(p["partition"] for p in held) == every
        assert len(backend.partitions("plain")) == PARTITIONS // 3
    for backend in backends:
        check_reads_alone(backend)
    never = first.get("/views/everywhere/keys?stale=never")
    assert readers(never) == {"b1", "b2", "b3"}
    whole = {"wanted": 1, "below": 0, "unknown": 0, "lost": []}
    first.wait(lambda: redundancy(first) == whole, "the reports of the others")

    # the proxy asks the active, as for other views
    owner = {p: id_ for id_, those in active.items() for p in those}
    with Client(deployment.proxy().port) as client:
        for path, value in PATHS.items():
            answer = client.get(path)
            assert (answer.status, answer.json()["value"]) == (200, {"n": value})
            assert readers(answer) == {owner[int(answer.headers["Partition"])]}

    # two are killed, one after the other: those that are left answer everything at once
    with ReadLoop([first.port, second.port], list(PATHS), judge()) as reads:
        third.kill()
        reads.all_again()
        first.wait(lambda: redundancy(first)["lost"] == ["b3"], "the loss to be noticed")
        settle([first, second])
        reads.all_again()
    assert reads.outcomes.keys() == {"200"}
    first.wait(lambda: redundancy(first)["below"] == 0, "the report of the other")
    with ReadLoop([first.port], [*PATHS], judge()) as reads:
        second.kill()
        reads.all_again()
        with Client(first.port) as client:
            assert {client.get(path).status for path in (*WHOLE, *ANYWHERE)} == {200}
        settle([first])
        reads.all_again()
    assert reads.outcomes.keys() == {"200"}
    check_reads_alone(first)

    # a new one forwards what it does not have yet, gets copies of all, and then answers alone
    shutil.rmtree(third.data_dir)
    third.launch()
    third.wait_listening()
    with ReadLoop([third.port], list(PATHS), judge("no-topology")) as reads:
        settle([first, third])
        reads.all_again()
    for view in ("everywhere", "anywhere"):
        for partition in range(PARTITIONS):
            assert f"view {view}, partition {partition}: received a snapshot" in third.log()
    check_reads_alone(third)
    assert {id_: len(those) for id_, those in placement(first, "topic").items()} == {
        "b1": PARTITIONS // 2,
        "b3": PARTITIONS // 2,
    }
