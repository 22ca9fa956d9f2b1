"""A rolling restart with another views.toml, under readers: no wrong answer, by name or by path,
directly or through any start of nginx. What is not decided is 503.

One restart walks through all pairs of files that a view may have, and a second one back.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

import pytest

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.client import Client, Response
from tests.support.deployment import Deployment, settle
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

KEYS = [str(number) for number in range(10, 18)]  # as text and as JSON they are the same bytes
STARTS = 4  # of nginx, each with two workers: a table of Lua has another order in each process

Fields = Mapping[str, str]
View = tuple[str, Fields]
"""The name in views.toml, and the fields that differ from the default ones."""


@dataclass(frozen=True)
class Pair:
    """The views in the file before and in the new one."""

    old: tuple[View, ...]
    new: tuple[View, ...]


def of(topic: str, path: str, **more: str) -> Fields:
    return {"topic": topic, "path": f"/{path}", **more}


PAIRS = {
    "a version is added": Pair(
        (("grown", of("a", "grown")),),
        (("grown", of("a", "grown")), ("grown@2", of("empty", "grown"))),
    ),
    "a version is switched": Pair(
        (("switched", of("a", "switched")),),
        (("switched", of("a", "switched")), ("switched@2", of("b", "switched"))),
    ),
    "the first version is removed": Pair(
        (("first", of("a", "first")), ("first@2", of("b", "first"))),
        (("first@2", of("b", "first")),),
    ),
    "a path moves": Pair(
        (("from", of("a", "moved")), ("to", of("b", "to"))),
        (("from", of("a", "from")), ("to", of("b", "moved"))),
    ),
    "a path moves to a new view": Pair(
        (("losing", of("a", "won")),),
        (("losing", of("a", "lost")), ("winning", of("b", "won"))),
    ),
    "a view is renamed": Pair(
        (("before", of("a", "renamed")),), (("after", of("a", "renamed")),)
    ),
    "a view is removed": Pair((("gone", of("a", "gone")),), ()),
    "another key": Pair((("key", of("a", "key")),), (("key", of("a", "key", key="json")),)),
    "another partitioner": Pair(
        (("placed", of("a", "placed")),), (("placed", of("crc32", "placed", partitioner="crc32")),)
    ),
    "another store": Pair(
        (("store", of("a", "store")),), (("store", of("a", "store", store="versioned")),)
    ),
    "another topic": Pair((("topic", of("a", "topic")),), (("topic", of("b", "topic")),)),
}  # fmt: skip
OLD = {name: fields for pair in PAIRS.values() for name, fields in pair.old}
NEW = {name: fields for pair in PAIRS.values() for name, fields in pair.new}


def base(name: str) -> str:
    return name.partition("@")[0]


def targets(file: Mapping[str, Fields]) -> dict[str, set[str]]:
    """The names and paths of a file, as the start of a path of a key, and the topics whose values
    may be read there."""
    found: dict[str, set[str]] = {}
    for name, fields in file.items():
        # of the view, whose first version is current unless it is switched; and of the version
        for start in (fields["path"], f"/views/{base(name)}/keys", f"/views/{name}/keys"):
            if name != "grown@2":
                found.setdefault(start, set()).add(fields["topic"])
    return found


WAS, BECOMES = targets(OLD), targets(NEW)
ALLOWED = {start: WAS.get(start, set()) | BECOMES.get(start, set()) for start in {*WAS, *BECOMES}}
ALWAYS = WAS.keys() & BECOMES.keys()
"""Names and paths that both files have: they are never absent."""
MEANWHILE = {start for start in ALLOWED if start in ALWAYS or start.startswith("/views/")}
"""Those that are decided while one instance has either file."""
UNKNOWN = {"/switched", "/views/switched/keys"}
"""Those of a view whose current version no instance declares after the way back."""
PATHS = [f"{start}/{key}" for start in sorted(ALLOWED) for key in KEYS[:3]]


def error(path: str, answer: Response) -> str:
    """The error in an answer; "" if it is right. A view that only one file has may be absent."""
    start, _, key = path.rpartition("/")
    if answer.status == 503:
        return ""
    if answer.status != 200:
        is_absent = answer.status == 404 and answer.code in ("view-not-found", "no-such-resource")
        return "" if is_absent and start not in ALWAYS else f"an existing key is {answer.status}"
    document = answer.json()
    if str(document["key"]) != key:
        return "another key"
    topic = document["value"]["topic"]
    return "" if topic in ALLOWED[start] else f"the value of topic {topic}"


@pytest.fixture
def topics(make_topic: MakeTopic, writer: Writer, broker: Broker) -> dict[str, str]:
    """The topics by their names in PAIRS. That of the added version is empty: it is not complete
    before somebody switches."""
    made = {"a": make_topic(2), "b": make_topic(3), "crc32": make_topic(2), "empty": make_topic(2)}
    crc32 = Writer(broker.bootstrap_servers, partitioner="consistent_random")
    for name, of_topic in (("a", writer), ("b", writer), ("crc32", crc32)):
        of_topic.table(made[name], {key: {"topic": name} for key in KEYS})
    return made


def toml(file: Mapping[str, Fields], topics: Mapping[str, str]) -> str:
    lines = []
    for name, fields in file.items():
        given = {"key": "string", "value": "json", **fields, "topic": topics[fields["topic"]]}
        lines.append(f"[views.{json.dumps(name)}]")
        lines += [f"{field} = {json.dumps(value)}" for field, value in given.items()]
    return "\n".join(lines)


def check_all(deployment: Deployment, expected: Set[str]) -> None:
    """Every name and path, directly and through several new starts of nginx. `expected`: those that
    must be answered now, by whichever instance."""
    proxies = [
        deployment.proxy(workers=2, environment={"QUERYABLE_PROXY_BATCHES": str(number % 2)})
        for number in range(STARTS)
    ]
    outcomes: Counter[str] = Counter()
    wrong = []
    for port in [*(nginx.port for nginx in proxies), *(each.port for each in deployment.all)]:
        with Client(port) as client:
            for path in PATHS:
                answer = client.get(path)
                outcomes[str(answer.status)] += 1
                if why := error(path, answer):
                    wrong.append(f"{path} at {port}: {why}")
                elif answer.status == 503 and path.rpartition("/")[0] in expected:
                    wrong.append(f"{path} at {port}: {answer.code}, though it is decided")
    for nginx in proxies:
        nginx.stop()
        deployment.proxies.remove(nginx)
    assert not wrong, (len(wrong), wrong[:10], outcomes)


def restart_all(
    deployment: Deployment,
    file: str,
    reading: ReadLoop,
    after: Set[str],
    switches: bool,
) -> None:
    deployment.views_path.write_text(file)
    for number, backend in enumerate(deployment.all):
        assert backend.stop() == 0
        backend.launch()
        settle(deployment.all)
        reading.check()
        if switches and not number:
            body = b'{"version":2,"force":true}'
            with Client(backend.port) as client:
                answer = client.request("POST", "/views/switched/switch", body)
            assert answer.status == 200, answer.body

            def follows() -> bool:
                answer = deployment.all[0].get("/switched/10")
                return answer.status == 200 and answer.headers["View-Version"] == "2"

            wait_until(follows, 10, "version 2 to be current", 0.05)
        is_last = number == len(deployment.all) - 1
        check_all(deployment, after if is_last else MEANWHILE)


def test_no_answer_is_wrong_while_files_differ(deploy: Deploy, topics: dict[str, str]) -> None:
    files = toml(OLD, topics), toml(NEW, topics)
    deployment = deploy(files[0], standby_replicas="1")
    deployment.start(3)
    nginx = deployment.proxy(workers=2)
    ports = [nginx.port, *(each.port for each in deployment.all)]
    with ReadLoop(ports, PATHS, error, threads=2) as reading:
        restart_all(deployment, files[1], reading, BECOMES.keys(), switches=True)
        restart_all(deployment, files[0], reading, WAS.keys() - UNKNOWN, switches=False)
    reading.check()
    assert reading.outcomes["200"] > len(PATHS)
