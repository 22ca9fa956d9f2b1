"""The same key in several partitions of a changelog: no partial result is given for the whole."""

from __future__ import annotations

import asyncio
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from backend.queries.scans.partials import AmbiguityCheck, rows_by_partition
from backend.wire.scan import Query, Row, ScanResponse
from backend.wire.scan_codec import ENTRIES, ScanRequest
from model.kinds.versioned import VersionedLayout
from model.pipelines.status import Pipeline
from model.records import ENTRY_HEAD_SIZE
from tests.support.in_process.examples import view
from tests.support.in_process.world import world
from tests.unit.backend.queries.scans.any_partition import cluster, everywhere, put

CHANGELOG = "shop-totals-changelog"


def codes(of: Any, target: str) -> set[tuple[int, str]]:
    """(status, code) by each instance."""
    return {(status, document.get("code", "")) for status, document in everywhere(of, target)}


AMBIGUOUS = {(503, "ambiguous-key")}


@pytest.mark.parametrize("partitioner", ["murmur2", "none"])
def test_a_partial_result_is_not_given_for_the_whole(tmp_path: Path, partitioner: str) -> None:
    with cluster(tmp_path, topic=CHANGELOG, partitioner=partitioner) as made:
        for partition in range(3):
            put(made, partition, b"both", b'{"n":%d}' % partition, 10 + partition)
        put(made, 1, b"one", b'{"n":7}', 10)
        for target in ("keys/both", "keys", "top?by=n", "count?exact=true"):
            assert codes(made, target) == AMBIGUOUS, target
        for status, problem in everywhere(made, "keys/both"):
            assert problem["partitions"] == [0, 1, 2], status
            assert "both" in problem["detail"]
        for id_ in made.nodes:
            answer = made.ask(id_, "GET", "/views/orders/keys/both")
            assert answer.headers["retry-elsewhere"] == "no"
            batch = made.ask(id_, "POST", "/views/orders/batch", b'{"keys":["both","one"]}').json()
            assert [item["status"] for item in batch["items"]] == [503, 200]
            assert batch["items"][0]["code"] == "ambiguous-key"
        # what is in one partition alone is whole, wherever it is
        for status, document in everywhere(made, "keys/one"):
            assert (status, document["value"]) == (200, {"n": 7})
        assert codes(made, "keys/nobody") == {(404, "key-not-found")}
        assert codes(made, "keys?from=c") == {(200, "")}


def test_all_partial_results_are_to_be_had(tmp_path: Path) -> None:
    with cluster(tmp_path, topic=CHANGELOG, partitioner="none") as made:
        put(made, 0, b"x", b"0", 1)
        put(made, 0, b"a", b"1", 10)
        put(made, 2, b"a", b"5", 20)
        put(made, 1, b"a", b"7", 15)
        put(made, 1, b"a", None, 30)
        expected = [
            {"partition": 0, "offset": 1, "timestamp": 10, "value": 1},
            {"partition": 2, "offset": 0, "timestamp": 20, "value": 5},
        ]
        for status, document in everywhere(made, "keys/a?partials=all"):
            assert (status, document) == (200, {"key": "a", "partials": expected})
        assert codes(made, "keys/nobody?partials=all") == {(404, "key-not-found")}
        for id_ in made.nodes:
            target = "/views/orders/search?partials=all"
            assert made.ask(id_, "POST", target, b'{"query":"a"}').json()["partials"] == expected
        for more in ("max_lag=5", "min_offset=0:0", "route=redirect", "route=local"):
            assert codes(made, f"keys/a?partials=all&{more}") == {(400, "bad-parameter")}


def test_partial_results_of_a_view_whose_keys_are_where_they_belong(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        put(made, made.home(b"a"), b"a", b"1", 10)
        for status, document in everywhere(made, "keys/a?partials=all"):
            assert (status, len(document["partials"])) == (200, 1)


def test_a_key_that_may_have_been_deleted_elsewhere_is_ambiguous(tmp_path: Path) -> None:
    """A task that deletes its own entry, or a key that moved and was deleted: not to be told."""
    with cluster(tmp_path, topic=CHANGELOG, partitioner="none") as made:
        put(made, 0, b"a", b"1", 10)
        put(made, 1, b"a", None, 20)
        assert codes(made, "keys/a") == AMBIGUOUS
        # written again: both ways it is there
        put(made, 0, b"a", b"2", 30)
        assert codes(made, "keys/a") == {(200, "")}
        put(made, 0, b"a", None, 40)
        assert codes(made, "keys/a") == {(404, "key-not-found")}


def test_a_key_that_moved_is_its_newest_record_if_the_file_says_so(tmp_path: Path) -> None:
    with cluster(tmp_path, topic=CHANGELOG, partitioner="none", same_key="newest") as made:
        put(made, 0, b"a", b"1", 10)
        put(made, 1, b"a", b"2", 20)
        for status, document in everywhere(made, "keys/a"):
            assert (status, document["value"]) == (200, 2)


def test_other_topics_can_be_said_to_have_partial_results(tmp_path: Path) -> None:
    with cluster(tmp_path, partitioner="none", same_key="partial") as made:
        put(made, 0, b"a", b"1", 10)
        put(made, 1, b"a", b"2", 20)
        assert codes(made, "keys/a") == AMBIGUOUS


def test_partial_windows(tmp_path: Path) -> None:
    fields = {"topic": CHANGELOG, "store": "window", "partitioner": "none", "window_size": 10}
    with cluster(tmp_path, **fields) as made:
        put(made, 0, b"a", b"1", 10, 10, 0)
        put(made, 1, b"a", b"1", 10, 20, 0)
        for status, document in everywhere(made, "keys/a/windows"):
            assert (status, len(document["items"])) == (200, 2)
        put(made, 2, b"a", b"1", 10, 20, 0)
        for target in ("keys/a/windows", "windows", "keys/a/windows?order=desc"):
            assert codes(made, target) == AMBIGUOUS
        # the other window is whole
        assert codes(made, "keys/a/windows?to=15") == {(200, "")}
        assert codes(made, "windows?to=15") == {(200, "")}


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_sessions_of_two_tasks_might_have_been_one(tmp_path: Path, order: str) -> None:
    with cluster(tmp_path, topic=CHANGELOG, store="session", partitioner="none") as made:
        put(made, 0, b"a", b"1", 10, 10, 0)
        put(made, 0, b"a", b"1", 10, 30, 20)
        put(made, 1, b"b", b"1", 10, 10, 0)
        assert codes(made, f"sessions?order={order}") == {(200, "")}
        put(made, 1, b"a", b"1", 10, 50, 40)
        for target in ("keys/a/sessions", "sessions"):
            assert codes(made, f"{target}?order={order}") == AMBIGUOUS
        assert codes(made, f"keys/b/sessions?order={order}") == {(200, "")}


def test_versions_of_two_tasks_are_no_history(tmp_path: Path) -> None:
    with cluster(tmp_path, topic=CHANGELOG, store="versioned", partitioner="none") as made:
        put(made, 0, b"a", b"1", 10)
        put(made, 0, b"a", b"2", 20)
        put(made, 1, b"b", b"2", 20)
        for target in ("keys/a", "keys/a/versions", "keys/a?as_of=15", "keys"):
            assert codes(made, target) == {(200, "")}, target
        put(made, 2, b"a", b"3", 30)
        for target in ("keys/a", "keys/a/versions", "keys/a?as_of=15", "keys"):
            assert codes(made, target) == AMBIGUOUS, target
        for status, document in everywhere(made, "keys/a?partials=all"):
            assert (status, [each["value"] for each in document["partials"]]) == (200, [2, 3])


def test_what_is_found_out_within_a_stream_of_pages_counts(tmp_path: Path) -> None:
    """No instance knows of it before the partition with the stray record has been asked."""
    with cluster(tmp_path, topic=CHANGELOG) as made:
        key = b"key 1"
        home = made.home(key)
        put(made, home, key, b"1", 10)
        made.mispartitioned = True  # the instances do not know it
        put(made, (home + 1) % 3, key, b"2", 11)
        assert not any(
            node.store_partitions.topology_mispartitioned for node in made.nodes.values()
        )
        assert codes(made, "keys") == AMBIGUOUS


def test_an_instance_that_has_read_a_stray_record_gives_no_partial_result(tmp_path: Path) -> None:
    """Before the map says it to the others, too."""
    with cluster(tmp_path, topic=CHANGELOG) as made:
        key = b"key 1"
        home = made.home(key)
        stray = (home + 1) % 3
        put(made, home, key, b"1", 10)
        made.mispartitioned = True  # the instances do not know it
        put(made, stray, key, b"2", 11)
        knows = f"b{made.active[stray] + 1}"
        answer = made.ask(knows, "GET", "/views/orders/keys/key%201")
        assert (answer.status, answer.json()["code"]) == (503, "ambiguous-key")
        batch = made.ask(knows, "POST", "/views/orders/batch", b'{"keys":["key 1"]}').json()
        assert batch["items"][0]["code"] == "ambiguous-key"


def test_all_partial_windows_are_to_be_had(tmp_path: Path) -> None:
    with cluster(tmp_path, topic=CHANGELOG, store="window", partitioner="none") as made:
        for partition in (0, 2):
            for start in (10, 20, 30):
                put(made, partition, b"a", b"%d" % (start + partition), 10, start, 0)
        for status, document in everywhere(made, "keys/a/windows?partials=all&from=20"):
            assert status == 200
            found = {
                each["partition"]: [(item["start"], item["value"]) for item in each["items"]]
                for each in document["partials"]
            }
            assert found == {0: [(20, 20), (30, 30)], 2: [(20, 22), (30, 32)]}
        assert everywhere(made, "keys/b/windows?partials=all")[0] == (
            200, {"key": "b", "partials": []},
        )  # fmt: skip
        too_many = {(400, "too-many-entries")}
        assert codes(made, "keys/a/windows?partials=all&limit=2") == too_many
        assert codes(made, "keys/a/windows?partials=all&max_lag=2") == {(400, "bad-parameter")}
        # of a point there is none
        assert codes(made, "keys/a?partials=all") == {(400, "wrong-store")}


@pytest.mark.parametrize("partitioner", ["none", "murmur2"])
def test_all_partial_versions_end_where_their_own_partition_says(
    tmp_path: Path, partitioner: str
) -> None:
    fields = {"store": "versioned", "partitioner": partitioner, "retention": 50}
    with cluster(tmp_path, topic=CHANGELOG, **fields) as made:
        home = made.home(b"a")
        places = [home] if partitioner == "murmur2" else [home, (home + 1) % 3]
        for number, partition in enumerate(places):
            put(made, partition, b"a", b"1", 10 + number)
            put(made, partition, b"a", None, 20 + number)
            put(made, partition, b"a", b"2", 30 + number)
        for status, document in everywhere(made, "keys/a/versions?partials=all"):
            assert status == 200
            found = {
                each["partition"]: [
                    (item["valid_from"], item["valid_to"]) for item in each["items"]
                ]
                for each in document["partials"]
            }
            assert found == {
                partition: [(10 + number, 20 + number), (30 + number, None)]
                for number, partition in enumerate(places)
            }


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_sessions_of_a_key_are_compared_over_pages(tmp_path: Path, order: str) -> None:
    with cluster(tmp_path, topic=CHANGELOG, store="session", partitioner="none") as made:
        for number in range(4):
            put(made, 0, b"a", b"1", 10, number * 20 + 10, number * 20)
            put(made, 1, b"b", b"1", 10, number * 20 + 10, number * 20)
        target = f"sessions?order={order}&limit=4"
        [document, *_] = [found for _, found in everywhere(made, target)]
        seen = [(item["key"], item["start"]) for item in document["items"]]
        while document["next"]:
            [(status, document), *_] = everywhere(made, f"{target}&cursor={document['next']}")
            assert status == 200
            seen += [(item["key"], item["start"]) for item in document["items"]]
        expected = [(key, number * 20) for key in "ab" for number in range(4)]
        assert seen == (expected if order == "asc" else expected[::-1])
        # the first page ends with a key, the second begins with a session of it elsewhere
        first = everywhere(made, target)[0][1]
        key, start = (b"a", 300) if order == "asc" else (b"b", -300)
        put(made, 2, key, b"1", 10, start + 10, start)
        assert codes(made, f"{target}&cursor={first['next']}") == AMBIGUOUS


def test_whole_keys_cost_no_more_questions_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition is asked by itself only where a key may be in several."""
    asked: list[str] = []
    with cluster(tmp_path, topic=CHANGELOG, partitioner="none") as made:
        made.place([0, 1, 1])
        made.settle()
        forward = made.forward

        async def counted(member: Any, *arguments: Any, **more: Any) -> Any:
            asked.append(member.id)
            return await forward(member, *arguments, **more)

        monkeypatch.setattr(made, "forward", counted)
        put(made, 2, b"one", b"1", 10)
        assert made.ask("b1", "GET", "/views/orders/keys/one").status == 200
        assert asked == ["b2"]
        put(made, 1, b"one", b"1", 10)
        asked.clear()
        # both are held by one instance
        assert made.ask("b1", "GET", "/views/orders/keys/one").status == 503
        assert asked == ["b2", "b2", "b2"]


@pytest.mark.parametrize("store", ["key-value", "window"])
def test_partial_results_say_how_fresh_their_pipeline_is(tmp_path: Path, store: str) -> None:
    """As every other answer of the view does."""
    fields = {"topic": CHANGELOG, "partitioner": "none", "store": store, "window_size": 10}
    with cluster(tmp_path, **fields) as made:
        put(made, 0, b"a", b"1", 10, *((10, 0) if store == "window" else ()))
        for node in made.nodes.values():
            node.context.pipelines = {"orders": Pipeline("job", trusted_for_s=5)}
        windows = "/windows" if store == "window" else ""
        for question in ("", "?partials=all"):
            answer = made.ask("b1", "GET", f"/views/orders/keys/a{windows}{question}")
            assert (answer.status, answer.headers["pipeline-lag"]) == (200, "unknown"), question


def test_one_instance_alone_does_not_answer_for_all_partitions(tmp_path: Path) -> None:
    with cluster(tmp_path, partitioner="none") as made:
        put(made, 0, b"a", b"1", 10)
        assert codes(made, "keys/a") == {(200, "")}
        assert codes(made, "keys/a?route=local") == {(503, "mis-partitioned")}
        assert codes(made, "keys/nobody?route=local") == {(503, "mis-partitioned")}
    with cluster(tmp_path / "keyed") as made:
        put(made, made.home(b"a"), b"a", b"1", 10)
        assert codes(made, "keys/a?route=local") == {(200, ""), (503, "not-here")}
        assert codes(made, "keys/nobody?route=local") == {(404, "key-not-found"), (503, "not-here")}


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_of_a_key_with_many_sessions_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """Regression: if the time of a page did not suffice to read the sessions of its first key that
    earlier pages had, the page was empty, and its cursor began no later than before."""
    monkeypatch.setattr("backend.queries.page.PAGE_BUDGET", 0.0)
    with cluster(tmp_path, topic=CHANGELOG, store="session", partitioner="none") as made:
        for number in range(5):
            put(made, number % 2, b"ab"[number % 2 :][:1], b"1", 10, number * 20 + 10, number * 20)
        expected = [("a", 0), ("a", 40), ("a", 80), ("b", 20), ("b", 60)]
        target = f"/views/orders/sessions?order={order}&limit=1"
        found, cursor = list[tuple[str, int]](), ""
        for _ in range(len(expected) + 2):
            page = made.ask("b1", "GET", f"{target}{cursor}").json()
            found += [(item["key"], item["start"]) for item in page["items"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert page["next"] is None
        assert found == (expected if order == "asc" else expected[::-1])


@pytest.mark.parametrize("backwards", [False, True])
def test_versions_that_are_compared_from_the_middle_of_a_key_on(backwards: bool) -> None:
    """Regression: if an instance said only in a later step that a key may be in several partitions,
    the rest of the versions was skipped."""
    of = view(topic=CHANGELOG, store="versioned")
    layout = of.layout
    assert isinstance(layout, VersionedLayout)
    entries = [
        (layout.stored_key(b"a", time), bytes(ENTRY_HEAD_SIZE), b"%d" % time) for time in range(6)
    ]

    async def asking(
        request: ScanRequest, partitions: list[int], after: bytes | None
    ) -> list[tuple[list[int], ScanResponse]]:
        low, high = request.query.rest(of, after)
        rows = [row for row in entries if low <= row[0] < high]
        if backwards:
            rows.reverse()
        reached = rows[1][0] if len(rows) > 2 else None
        return [(partitions, ScanResponse(rows=rows[:2], reached=reached))]

    async def versions_after(after: bytes) -> list[Row]:
        low, high = layout.key_range(b"a", b"a")
        request = ScanRequest(of.name, of.hash, 1, ENTRIES, Query(low, high, backwards), 2)
        rule = AmbiguityCheck(of, with_times=True)
        steps = rows_by_partition(asking, of, request, [0], after, lambda _: None, rule)
        return [row async for rows, _ in steps for row in rows]

    order = entries[::-1] if backwards else entries
    assert asyncio.run(versions_after(order[2][0])) == order[3:]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_each_page_of_a_key_with_many_sessions_reads_as_much(tmp_path: Path, order: str) -> None:
    """Regression: a page began with all sessions of its first key that earlier pages had."""
    of = view(store="session", same_key="partial", partitioner="none")
    sessions = {b"k" + struct.pack(">qq", n, n): b"1" for n in range(2_000)}
    with world(tmp_path, of) as made:
        made.put_all(sessions, partition=0)
        scans = [instance.context.telemetry.scans["orders"] for instance in made.instances.values()]
        starts, examined = list[int](), list[int]()
        for items in made.pages(f"sessions?order={order}&limit=100"):
            starts += [item["start"] for item in items]
            examined.append(sum(sum(scan.entries.values()) for scan in scans))
        assert sorted(starts) == list(range(2_000))
        of_pages = [after - before for before, after in pairwise(examined)]
        assert max(of_pages) <= 2 * of_pages[0]
