"""Each answer is of one version of a view, and says which, also while instances differ about the
current one."""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from backend.queries.whole_view.registry import VIEW_QUERIES
from backend.wire.point_batch import Reads, encode_reads
from model.machine.clock import boot_time
from model.partitioner import partition_of
from model.pipelines.status import CommittedOffset, Pipeline
from model.records import ENTRY
from model.view_versions import VersionState
from tests.support.in_process.examples import ORDERS, view
from tests.support.in_process.instance import context
from tests.support.in_process.pages import flask_pages
from tests.support.in_process.tokens import access_control, token
from tests.support.in_process.versioned import (
    COUNTS,
    KEYS,
    ONLY_IN_FIRST,
    Deployment,
    two_versions,
)
from tests.support.in_process.world import world
from tests.unit.backend.http.kiqr.client import asking
from tests.unit.backend.http.kiqr.stores import b64, serdes

# which version is current on b1 and b2
CURRENT = [(1, 1), (2, 1), (1, 2), (2, 2)]


def versions_in(document: Any) -> set[int]:
    """The versions of all values in an answer."""
    if isinstance(document, dict):
        own = {document["v"]} if "v" in document else set()
        return own.union(*(versions_in(each) for each in document.values()))
    if isinstance(document, list):
        return set().union(*map(versions_in, document))
    return set()


def test_the_name_and_the_path_mean_the_current_version(made: Deployment) -> None:
    for current in (1, 2, 1):
        made.switch(current)
        for path, key in itertools.product(("/o/", "/views/orders/keys/"), KEYS):
            answer = made.ask(path + key)
            assert (answer.status, answer.version) == (200, current)
            assert answer.json["value"]["v"] == current


def test_a_version_can_be_named(made: Deployment) -> None:
    for version, name in ((1, "orders@1"), (2, "orders@2"), (2, "orders%402"), (1, "%6frders%401")):
        for key in KEYS:
            answer = made.ask(f"/views/{name}/keys/{key}")
            assert (answer.status, answer.version) == (200, version)
            assert answer.json["value"]["v"] == version
    assert made.ask("/views/orders@1/count?exact=true").json["count"] == len(KEYS) + 1
    assert made.ask("/views/orders@2/count?exact=true").json["count"] == len(KEYS)


def test_a_404_says_of_which_version_it_is(made: Deployment) -> None:
    assert made.ask(f"/o/{ONLY_IN_FIRST}").status == 200
    made.switch(2)
    for instance in ("b1", "b2"):
        answer = made.ask(f"/o/{ONLY_IN_FIRST}", instance)
        assert (answer.status, answer.json["code"]) == (404, "key-not-found")
        assert answer.version == 2


def test_an_answer_that_is_no_value_says_its_version(made: Deployment) -> None:
    made.switch(2)
    for target in ("/o/k?limit=", "/views/orders/keys?limit=x", "/views/orders/top"):
        answer = made.ask(target)
        assert (answer.status, answer.version) == (400, 2), target
    # about the view as a whole
    assert "view-version" not in made.ask("/views/orders/versions").named


QUERIES = [
    ("GET", "/views/orders/keys?limit=100", None),
    ("GET", "/views/orders/top?by=n&limit=100", None),
    ("POST", "/views/orders/batch", {"keys": KEYS}),
    ("GET", "/views/orders/aggregate?by=v", None),
    ("GET", "/views/orders/count?exact=true", None),
    ("POST", "/views/orders/search", {"query": KEYS[0]}),
    *(("GET", f"/o/{key}", None) for key in KEYS),
]


def test_every_query_of_a_whole_view_is_asked() -> None:
    targets = [target for _, target, _ in QUERIES]
    for query in VIEW_QUERIES:
        assert any(f"/views/orders/{query.name}?" in target for target in targets), query.name


@pytest.mark.parametrize("current", CURRENT)
def test_no_answer_mixes_versions_while_instances_differ(
    made: Deployment, current: tuple[int, int]
) -> None:
    """Each instance answers from the version that is current there, also if the partitions
    are on the other one."""
    made.switch(current[0], "b1")
    made.switch(current[1], "b2")
    for instance, expected in zip(("b1", "b2"), current, strict=True):
        for method, target, body in QUERIES:
            answer = made.ask(target, instance, method, body)
            assert (answer.status, answer.version) == (200, expected), (target, answer.body)
            count = len(KEYS) + (expected == 1)
            if "count?" in target:
                assert answer.json["count"] == count
            elif "aggregate" in target:
                [group] = answer.json["items"]
                assert (group["group"], group["entries"]) == (expected, count)
            else:
                assert versions_in(answer.json) == {expected}, target
        lines = made.ask("/views/orders/keys", instance, headers={"accept": "application/x-ndjson"})
        assert lines.version == expected
        values = [orjson.loads(line) for line in lines.body.splitlines()]
        assert versions_in(values) == {expected}
    assert {instance for instance, _ in made.asked} == {"b1", "b2"}


@pytest.mark.parametrize("current", [1, 2])
def test_coalesced_reads_and_the_fast_path_say_the_version(made: Deployment, current: int) -> None:
    made.switch(current)
    for instance in ("b1", "b2"):
        router, context = made.routers[instance], made.contexts[instance]
        count = len(context.group.placed(context.group.versions.named["orders"]).active)
        place = partition_of("murmur2")
        reads = []
        for key in map(str.encode, KEYS):
            words = b"orders string murmur2 %d %d" % (count, place(key, count))
            reads.append(Reads(words, [ENTRY + key]))
        body = encode_reads([], reads)
        answer = asyncio.run(made.request(instance, "POST", "/internal/reads", body))
        assert answer.status == 200
        assert b"view-version: %d\n" % current in answer.body
        assert b"view-version: %d" % (3 - current) not in answer.body
        for key in KEYS:
            now = router.fast_path.answer_now(b"/o/" + key.encode())
            if now is not None:
                assert dict(now.headers)[b"view-version"] == b"%d" % current
                assert orjson.loads(now.body)["value"]["v"] == current


def test_only_an_instance_chooses_the_version_of_a_request(made: Deployment) -> None:
    assert made.ask("/o/key-1", headers={"view-version": "2"}).version == 1
    forwarded = {"queryable-forwarded": "b2", "view-version": "2"}
    for instance in ("b1", "b2"):
        answer = made.ask("/o/key-1", instance, headers=forwarded)
        # one of the two has the key; the other one does not forward it again
        assert answer.status in (200, 503)
        assert answer.status == 503 or answer.json["value"]["v"] == 2
    for bad in ("3", "x", "0", "9" * 30):
        answer = made.ask("/o/key-1", headers={**forwarded, "view-version": bad})
        assert (answer.status, answer.json["code"]) == (503, "not-here")


def test_a_cursor_continues_in_its_version(made: Deployment) -> None:
    target = "/views/orders/keys?limit=5"
    first = made.ask(target).json
    made.switch(2)
    cursor = first["next"]
    rest = made.ask(f"{target}&cursor={cursor}")
    assert rest.version == 1
    assert versions_in(rest.json) == {1}
    last = made.ask(f"{target}&cursor={rest.json['next']}", "b2")
    keys = [each["key"] for page in (first, rest.json, last.json) for each in page["items"]]
    assert keys == sorted([*KEYS, ONLY_IN_FIRST])
    # also for lines, and not if a version is named
    lines = made.ask(
        f"/views/orders/keys?cursor={cursor}", headers={"accept": "application/x-ndjson"}
    )
    assert lines.version == 1
    refused = made.ask(f"/views/orders@2/keys?limit=5&cursor={cursor}")
    assert (refused.status, refused.json["code"]) == (400, "cursor-invalid")
    # while it exists
    made.switch(2, dropped=(1,))
    refused = made.ask(f"{target}&cursor={cursor}")
    assert (refused.status, refused.json["code"]) == (400, "cursor-invalid")


def test_an_etag_is_of_one_version(made: Deployment) -> None:
    etag = made.ask("/o/key-1").named["etag"]
    assert made.ask("/o/key-1", headers={"if-none-match": etag}).status == 304
    made.switch(2)
    answer = made.ask("/o/key-1", headers={"if-none-match": etag})
    assert (answer.status, answer.version) == (200, 2)


@pytest.mark.slow
def test_an_etag_is_of_one_definition_of_the_view(tmp_path: Path) -> None:
    """The topic is the same, but the values of a client are not."""
    etags = []
    for number, value in enumerate(["string", "json", "json"]):
        with world(tmp_path / str(number), view(value=value)) as made:
            made.put(b"a", b"1")
            # all instances agree
            (etag,) = {made.ask("keys/a", each).named[b"etag"] for each in ("b1", "b2")}
            etags.append(etag)
            answer = made.ask("keys/a", headers=[(b"if-none-match", etags[0])])
            assert answer.status == (304 if number == 0 else 200)
    assert etags[1] == etags[2]


def test_an_undecided_view_answers_only_for_named_versions(made: Deployment) -> None:
    """Until an instance has read which version is current, or if it does not declare it."""
    made.contexts["b1"].group.apply_versions({"orders": VersionState(3, 2, (), 5)})
    for target in ("/o/key-1", "/views/orders/keys", "/views/orders/count", "/views/orders"):
        answer = made.ask(target)
        assert (answer.status, answer.json["code"]) == (503, "version-unknown"), target
        assert "retry-after" in answer.named
    assert made.routers["b1"].fast_path.answer_now(b"/o/key-1") is None
    assert made.ask("/views/orders@2/keys/key-1").json["value"]["v"] == 2
    status = made.ask("/views/orders/versions")
    assert status.status == 200
    assert status.json["current"] == 3


def test_a_dropped_version_is_not_found(made: Deployment) -> None:
    made.switch(2, dropped=(1,))
    assert made.ask("/o/key-1").version == 2
    assert made.routers["b1"].fast_path.answer_now(b"/views/orders@1/keys/key-1") is None


def test_a_scope_is_for_all_versions_of_a_view(tmp_path: Path) -> None:
    with two_versions(tmp_path, access_control()) as made:
        made.switch(2)
        mine = {"authorization": f"Bearer {token('read:orders')}"}
        other = {"authorization": f"Bearer {token('read:other')}"}
        for target in ("/o/key-1", "/views/orders@1/keys/key-1", "/views/orders@2/keys?limit=50"):
            assert made.ask(target, headers=mine).status == 200
            assert made.ask(target, headers=other).status == 403
        for command in ("switch", "rollback", "drop"):
            answer = made.ask(f"/views/orders/{command}", "b1", "POST", {}, mine)
            assert (answer.status, answer.json["code"]) == (403, "forbidden")


def test_kiqr_answers_from_the_current_version(made: Deployment) -> None:
    deployment = SimpleNamespace(
        instances={id_: SimpleNamespace(context=of) for id_, of in made.contexts.items()},
        routers=made.routers,
        peers=made,
    )
    with asking(cast(Any, deployment)) as client:
        for version in (1, 2):
            made.switch(version)
            for name, expected in (("orders", version), ("orders@1", 1), ("orders@2", 2)):
                for key in KEYS:
                    path = f"/api/v1/kv/{name}/values/{b64(key.encode())}"
                    answer = client.get(path, query_string=serdes("String", "String"))
                    value = orjson.loads(base64.b64decode(answer.json["value"]))
                    assert (value["v"], answer.headers["View-Version"]) == (expected, str(expected))
                answer = client.get(f"/api/v1/kv/{name}/count")
                assert answer.json["count"] == len(KEYS) + (expected == 1)
                assert answer.headers["View-Version"] == str(expected)


def test_documents_describe_the_current_version_under_the_name(made: Deployment) -> None:
    """So a proxy computes partitions as of the current version, and asks its owners."""
    served = made.contexts["b1"]
    with flask_pages(served).test_client() as client:
        for version in (1, 2):
            made.switch(version)
            document = client.get("/processors").json
            views = document["views"]
            assert {name: each["partitions"] for name, each in views.items()} == {
                "orders": COUNTS[version], "orders@1": 2, "orders@2": 3,
            }  # fmt: skip
            # one path leads to one view
            assert [n for n, each in views.items() if each["path"] == "/o"] == ["orders"]
            assert views["orders"]["version"] == version
            for processor in document["processors"]:
                of = processor["topicPartitions"]
                assert of["orders"] == of[f"orders@{version}"]
            [listed] = client.get("/views").json["views"]
            assert (listed["name"], listed["version"], listed["versions"]) == (
                "orders", version, [1, 2],
            )  # fmt: skip
            assert listed["topic"] == ("orders" if version == 1 else "orders-v2")
            named = client.get("/views/orders@1")
            assert (named.json["name"], named.json["version"]) == ("orders@1", 1)
            assert named.headers["View-Version"] == "1"
        made.switch(2, dropped=(1,))
        assert client.get("/views/orders@1").status_code == 404
        assert set(client.get("/processors").json["views"]) == {"orders", "orders@2"}


def test_a_view_without_versions_has_no_header_and_fields_of_versions() -> None:
    served = context([ORDERS])
    assert [name for name, _ in served.group.view_headers(ORDERS)] == [b"view-definition"]
    with flask_pages(served).test_client() as client:
        [listed] = client.get("/views").json["views"]
        assert not {"version", "versions"} & listed.keys()
        assert client.get("/views/orders@1").json["name"] == "orders"


def test_a_switch_is_a_newer_epoch(made: Deployment) -> None:
    epochs = [made.ask("/o/key-1").named["topology-epoch"]]
    for version in (2, 1):
        made.switch(version)
        epochs.append(made.ask("/o/key-1").named["topology-epoch"])
    assert epochs == ["5-1", "5-2", "5-3"]


@pytest.mark.parametrize(
    "body", [None, [], {}, {"version": "2"}, {"version": True}, {"version": 0}, {"version": 1.0},
             {"version": 2, "force": 1}, {"version": 2, "max_lag": -1}, {"version": 2, "more": 1}]
)  # fmt: skip
def test_a_malformed_command_is_refused(made: Deployment, body: Any) -> None:
    answer = made.ask("/views/orders/switch", "b1", "POST", body)
    assert (answer.status, answer.json["code"]) == (400, "bad-request")


def test_commands_that_change_nothing_say_so(made: Deployment) -> None:
    for command, body, status, code in (
        ("switch", {"version": 1}, 409, "version-is-current"),
        ("switch", {"version": 7}, 404, "version-not-found"),
        ("drop", {"version": 1}, 409, "version-is-current"),
        ("drop", {"version": 7}, 404, "version-not-found"),
        ("rollback", {}, 409, "no-previous-version"),
        ("rollback", {"force": True}, 409, "no-previous-version"),
    ):
        answer = made.ask(f"/views/orders/{command}", "b1", "POST", body)
        assert (answer.status, answer.json["code"]) == (status, code), command


def dropped(
    made: Deployment, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> tuple[Any, list[str]]:
    """The answer to a drop of version 1, and the topics that were deleted. Version 2 is current."""
    deleted: list[str] = []
    log: Any = SimpleNamespace(change=lambda base, state: None, delete_topic=deleted.append)
    made.contexts["b1"].kafka = replace(made.contexts["b1"].kafka, version_log=log)
    answer = made.ask("/views/orders/drop", "b1", "POST", {"version": 1, **more})
    return answer.json.get("code", answer.status), deleted


def heard(states: list[str], group: str = "spark-orders") -> Pipeline:
    """A pipeline with these heartbeats, the last one now."""
    pipeline = Pipeline(group, 5.0)
    pipeline.record_poll(boot_time() - 5, time.time_ns() // 1_000_000 - 5000, {}, {}, None)
    now, wall_ms = boot_time() - 0.1 * len(states), time.time_ns() // 1_000_000
    for number, state in enumerate(states):
        heartbeat = orjson.dumps({"state": state, "at": wall_ms + number}).decode()
        committed = {("raw", 0): CommittedOffset(7, heartbeat)}
        pipeline.record_poll(now + 0.1 * number, wall_ms + number, committed, {}, None)
    return pipeline


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["running", "running"], "pipeline-running"),
        (["running", "paused"], "pipeline-running"),
        (["running", "failed"], "pipeline-running"),
        (["running"], "pipeline-unknown"),
        (["running", "stopped"], 200),
        ([], 200),
    ],
)
def test_the_topic_of_a_pipeline_that_runs_is_not_deleted(
    made: Deployment, monkeypatch: pytest.MonkeyPatch, states: list[str], code: str | int
) -> None:
    """Regression: the Spark job ended, with all its views, and did not start again."""
    made.switch(2)
    monkeypatch.setattr(made.contexts["b1"], "pipelines", {"orders": heard(states)})
    found, deleted = dropped(made, monkeypatch, delete_topic=True)
    assert (found, deleted) == (code, ["orders"] if code == 200 else [])
    assert dropped(made, monkeypatch) == (200, [])


def test_the_topic_of_a_pipeline_that_was_not_looked_at_is_not_deleted(
    made: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.switch(2)
    monkeypatch.setattr(made.contexts["b1"], "pipelines", {"orders": Pipeline("unknown", 5.0)})
    assert dropped(made, monkeypatch, delete_topic=True) == ("pipeline-unknown", [])


def test_the_topic_of_a_pipeline_that_runs_for_another_version_is_deleted(
    made: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.switch(2)
    pipeline = heard(["running", "running"])
    pipelines = {"orders": pipeline, "orders@2": pipeline}
    monkeypatch.setattr(made.contexts["b1"], "pipelines", pipelines)
    assert dropped(made, monkeypatch, delete_topic=True) == (200, ["orders"])
