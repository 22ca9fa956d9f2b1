"""Indexes of the versions of a view: built in the stores of the new version, used after the switch,
and after the way back."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.support.backends import Backend
from tests.support.client import Response
from tests.support.deployment import Deployment, settle, views_toml
from tests.support.plugins.fixtures import Deploy, MakeTopic
from tests.support.read_loop import ReadLoop
from tests.support.topics import Writer

KEYS = 3_000
NUMBERS = 300
PER_NUMBER = KEYS // NUMBERS
FIELDS = {1: {"n": "int"}, 2: {"n": "string?", "tags": "strings?"}}
INDEXES = {1: {"by-n": ["n"]}, 2: {"by-n": ["n"], "by-tag": ["tags", "n"]}}
BY_NUMBER = "/views/orders/by/n/7"
ORDERED = "/views/orders/keys?order_by=n&limit=50&where=" + quote("n is not null")
COUNT = "/views/orders/count?exact=true&where=" + quote("n is not null and v > 0")
PATHS = [BY_NUMBER, "/views/orders/keys?where=" + quote("n in (7, 8)"), ORDERED, COUNT]


def rows_of(version: int) -> dict[str, Any]:
    """The field has another type in the second version."""
    rows: dict[str, Any] = {}
    for number in range(KEYS):
        n = number % NUMBERS
        rows[f"key {number:04}"] = (
            {"v": 1, "n": n} if version == 1 else {"v": 2, "n": str(n), "tags": [f"t{n}", "all"]}
        )
    return rows


def views(first: str, second: str, *with_indexes: int) -> str:
    text = views_toml(orders={"topic": first, "path": "/o"})
    text += f'[views."orders@2"]\ntopic = "{second}"\nkey = "string"\nvalue = "json"\npath = "/o"\n'
    for version in with_indexes:
        table = "views.orders" if version == 1 else 'views."orders@2"'
        for name, entries in (("fields", FIELDS), ("indexes", INDEXES)):
            lines = [f"{key} = {json.dumps(value)}" for key, value in entries[version].items()]
            text += "\n".join([f"[{table}.{name}]", *lines, ""])
    return text


def judge(path: str, answer: Response) -> str:
    """The error in an answer: it is of one version, complete, in order, and found by an index."""
    if answer.status == 400 and "n%20in" in path:  # numbers are no texts
        return "" if answer.headers["View-Version"] == "2" else "400 of version 1"
    if answer.status != 200:
        return "failed"
    version = int(answer.headers["View-Version"])
    document = answer.json()
    if path == COUNT:
        return "" if document["count"] == KEYS else "another count"
    if not answer.headers["Plan"].startswith("index by-n"):
        return f"plan {answer.headers['Plan']}"
    values = [item["value"] for item in document["items"]]
    if {value["v"] for value in values} != {version}:
        return "a value of another version"
    numbers = [value["n"] for value in values]
    if path == ORDERED:
        own = sorted(value["n"] for value in rows_of(version).values())
        return "" if numbers == own[:50] else "another order"
    wanted = {7: PER_NUMBER} if path == BY_NUMBER else {7: PER_NUMBER, 8: PER_NUMBER}
    counted = {int(n): numbers.count(n) for n in set(numbers)}
    return "" if counted == wanted else f"other rows: {counted}"


def plan(backend: Backend, version: int) -> str:
    value = "7" if version == 1 else "'7'"
    answer = backend.try_get(f"/views/orders@{version}/keys?where={quote(f'n = {value}')}")
    return "" if answer is None or answer.status != 200 else str(answer.headers["Plan"])


def command(backend: Backend, name: str, **body: Any) -> None:
    with backend.client() as client:
        path, document = f"/views/orders/{name}", json.dumps(body).encode()
        answer = client.request("POST", path, document)
    assert answer.status == 200, answer


def restart_all(deployment: Deployment, text: str) -> None:
    """One by one, with another views.toml."""
    deployment.views_path.write_text(text)
    for backend in deployment.all:
        assert backend.stop() == 0
        backend.launch()
        settle(deployment.all)


def test_each_version_answers_by_its_own_indexes(
    deploy: Deploy, make_topic: MakeTopic, writer: Writer
) -> None:
    first, second = make_topic(2), make_topic(3)
    for topic, version in ((first, 1), (second, 2)):
        writer.table(topic, rows_of(version))
    deployment = deploy(views(first, second, 1), standby_replicas="1")
    backends = deployment.start(2)
    assert [plan(backend, 2) for backend in backends] == ["scan", "scan"]

    # the indexes of the new version are built while the other one is current
    restart_all(deployment, views(first, second, 1, 2))
    for backend in backends:
        for version in (1, 2):
            backend.wait(lambda b=backend, v=version: plan(b, v) == "index by-n", f"{version}")

    with ReadLoop([backend.port for backend in backends], PATHS, judge, threads=2) as reads:
        reads.check()
        page = backends[0].get(ORDERED)
        for backend in backends:
            command(backend, "switch", version=2)
            reads.check()
            backend.wait(lambda: reads.check() or reads.seen("400") > 0, "version 2")
            tag = backend.get("/views/orders/by/tags/t7?order_by=n")
            assert tag.headers["Plan"] == "index by-tag"
            assert len(tag.json()["items"]) == PER_NUMBER
            # a page of the version before goes on in it, in its order
            rest = backend.get(f"{ORDERED}&cursor={page.json()['next']}")
            assert rest.headers["View-Version"] == "1"
            own = sorted(value["n"] for value in rows_of(1).values())
            assert [item["value"]["n"] for item in rest.json()["items"]] == own[50:100]
            command(backend, "rollback")
            assert backend.get(BY_NUMBER).headers["View-Version"] == "1"
    assert set(reads.outcomes) == {"200", "400"}, reads.outcomes

    # the way back to files without the new indexes leaves the first version as it was
    restart_all(deployment, views(first, second, 1))
    for backend in backends:
        assert [plan(backend, version) for version in (1, 2)] == ["index by-n", "scan"]
        assert judge(BY_NUMBER, backend.get(BY_NUMBER)) == ""
        assert backend.instance()["rebuilds"] == 0
