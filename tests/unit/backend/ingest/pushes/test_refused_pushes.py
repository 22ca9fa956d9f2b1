"""A push that is damaged, incomplete or does not fit changes no answer, and the status says why."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from model.pushes.manifest import Manifest
from model.topology import NO_MEMBER
from model.views import View
from tests.support.in_process.cluster import Cluster
from tests.support.in_process.examples import ORDERS
from tests.support.in_process.logs import NoSnapshots
from tests.support.pushes import manifest_of, push
from tests.support.reference.tables import Record

B1 = 0
ROWS = {f"k{n}": "{}" for n in range(20)}


@pytest.fixture
def view(folder: Path) -> View:
    return replace(ORDERS, push=str(folder))


@pytest.fixture
def cluster(tmp_path: Path, view: View) -> Iterator[Cluster]:
    """One instance and one partition, with a record."""
    made = Cluster(tmp_path, view, instances=1, partitions=1)
    made.place([B1])
    made.write(Record(0, b"a", (), b'"record"', 1_000), 0)
    made.settle()
    yield made
    made.close()


def problem(cluster: Cluster) -> str:
    """The first error in the status of the view's pushes."""
    [document] = cluster.nodes["b1"].pushes.documents(["orders"])
    return document["error"] or next(each["error"] for each in document["transfers"])


def refused(cluster: Cluster) -> str:
    """The problem; the record is still the answer, and no leftovers are on the disk."""
    for _ in range(3):
        cluster.settle()
    answer = cluster.ask("b1", "GET", "/orders/a")
    assert (answer.status, json.loads(answer.body)["value"]) == (200, "record")
    assert cluster.ask("b1", "GET", "/orders/k1").status == 404
    [stored] = (cluster.nodes["b1"].folder.root / "orders").iterdir()
    assert stored.name == "0"
    return problem(cluster)


def change_manifest(folder: Path, id_: str, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / id_ / "manifest.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def test_a_damaged_file(cluster: Cluster, view: View, folder: Path) -> None:
    id_ = push(folder, view, [1], ROWS)
    [file] = manifest_of(folder, id_).files
    path = folder / id_ / file.name
    raw = bytearray(path.read_bytes())
    raw[100] ^= 1
    path.write_bytes(raw)
    assert "is damaged" in refused(cluster)


@pytest.mark.parametrize("change", ["cut", "longer", "missing"])
def test_a_file_of_another_size(cluster: Cluster, view: View, folder: Path, change: str) -> None:
    id_ = push(folder, view, [1], ROWS)
    [file] = manifest_of(folder, id_).files
    path = folder / id_ / file.name
    raw = path.read_bytes()
    if change == "missing":
        path.unlink()
    else:
        path.write_bytes(raw[:-1] if change == "cut" else raw + b"x")
    assert ("No such file" if change == "missing" else "is damaged") in refused(cluster)


def test_a_damaged_push_is_installed_once_it_is_repaired(
    cluster: Cluster, view: View, folder: Path
) -> None:
    id_ = push(folder, view, [1], ROWS)
    [file] = manifest_of(folder, id_).files
    path = folder / id_ / file.name
    raw = path.read_bytes()
    path.write_bytes(b"")
    assert "is damaged" in refused(cluster)
    path.write_bytes(raw)
    [transfer] = cluster.nodes["b1"].pushes.transfers.values()
    assert transfer.retry_at > time.monotonic()
    transfer.retry_at = 0
    cluster.settle()
    assert cluster.ask("b1", "GET", "/orders/k1").status == 200


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"format": 2}, "format is 2"),
        ({"view": "other"}, "for view other"),
        ({"topic_id": "topic-0"}, "recreated"),
        ({"files": [{"name": "../x.sst"}]}, "sha256"),
        ({"files": "x"}, "files"),
        ({"push": "../../etc"}, "not the id of a push"),
        ({"offsets": {"orders": {"0": -1}}}, "offset of orders-0"),
        ({"offsets": {"orders": {"0": 7}}}, "truncated"),
        ({"entries": 3}, "entries"),
    ],
)
def test_a_manifest_that_is_wrong(
    cluster: Cluster, view: View, folder: Path, change: dict[str, Any], expected: str
) -> None:
    id_ = push(folder, view, [1], ROWS)
    change_manifest(folder, id_, lambda document: document.update(change))
    assert expected in refused(cluster)


@pytest.mark.parametrize(
    "change",
    [
        {"layout": {"key": "x" * 1_000_000}},
        {"layout": {"a" * 1_000_000: 1}},
        {"partitions": "x" * 1_000_000},
        {"created_at": -(10**18)},
        {"offsets": {"orders": {"0": "x" * 1_000_000}}},
        {"offsets": {"x" * 1_000_000: {}}},
    ],
)
def test_the_text_about_a_wrong_manifest_is_short(
    cluster: Cluster, view: View, folder: Path, change: dict[str, Any]
) -> None:
    """It is in the log and in GET /instance."""
    id_ = push(folder, view, [1], ROWS)
    change_manifest(folder, id_, lambda document: document.update(change))
    assert len(refused(cluster)) < 1_000


@pytest.mark.parametrize(
    "fields",
    [{"key": "bytes"}, {"value": "string"}, {"partitioner": "crc32"}, {"retention": 86_400_000}],
)
def test_a_push_for_a_view_with_another_definition(
    cluster: Cluster, view: View, folder: Path, fields: dict[str, Any]
) -> None:
    push(folder, replace(view, **fields), [1], ROWS)
    assert next(iter(fields)) in refused(cluster)


@pytest.mark.parametrize("content", [b"", b"{", b'{"push": "../x"}', b"x" * 20_000])
def test_a_file_current_json_that_is_incomplete(
    cluster: Cluster, folder: Path, content: bytes
) -> None:
    (folder / "current.json").write_bytes(content)
    assert "ManifestError" in refused(cluster)


def test_a_job_that_has_not_published_its_push(cluster: Cluster, view: View, folder: Path) -> None:
    push(folder, view, [1], ROWS)
    (folder / "current.json").unlink()
    for _ in range(3):
        cluster.settle()
    assert cluster.ask("b1", "GET", "/orders/k1").status == 404
    [document] = cluster.nodes["b1"].pushes.documents(["orders"])
    assert document == {"view": "orders", "push": None, "error": None, "transfers": []}


def test_files_of_another_partition(tmp_path: Path, view: View, folder: Path) -> None:
    """The checksums are right, but the job has computed other partitions."""
    two = Cluster(tmp_path, view, instances=1, partitions=2)
    two.place([B1, B1])
    two.settle()
    id_ = push(folder, view, [0, 0], ROWS)
    swapped = manifest_of(folder, id_)
    files = tuple(replace(file, partition=1 - file.partition) for file in swapped.files)
    manifest = replace(swapped, files=files)
    (folder / id_ / "manifest.json").write_bytes(manifest.encode())
    for _ in range(3):
        two.settle()
    assert two.ask("b1", "GET", "/orders/k1").status == 404
    assert "a key of partition" in problem(two)
    two.close()


def test_a_push_from_before_partitions_were_added(tmp_path: Path, view: View, folder: Path) -> None:
    """Its keys would be looked up in other partitions, and be 404 there."""
    two = Cluster(tmp_path, view, instances=1, partitions=2)
    two.place([B1, B1])
    for key in map(str.encode, ROWS):
        home = two.home(key)
        two.write(Record(len(two.logs[home]), key, (), b'"record"', 1_000), home)
    two.settle()
    push(folder, view, [len(two.logs[0])], {**ROWS, "new": '"pushed"'})
    for _ in range(3):
        two.settle()
    found = [two.ask("b1", "GET", f"/orders/{key}") for key in ROWS]
    assert {answer.body.partition(b'"value":')[2] for answer in found} == {b'"record"}'}
    assert "partitions were added" in problem(two)
    two.close()


def test_a_new_deployment_after_partitions_were_added(
    tmp_path: Path, view: View, folder: Path
) -> None:
    """The push has a key in the partition that it had before. The leader does not know that yet."""
    push(folder, view, [0], ROWS)
    two = Cluster(tmp_path, view, instances=1, partitions=2)
    two.place([B1, B1])
    for _ in range(3):
        two.settle()
    keys = [*ROWS, "new 1", "new 2", "new 3"]
    found = {key: two.ask("b1", "GET", f"/orders/{key}") for key in keys}
    moved = {key for key in keys if two.home(key.encode()) != 0}
    refused = {key: json.loads(found[key].body)["code"] for key in moved}
    assert refused == dict.fromkeys(moved, "repartitioned")
    assert {found[key].status for key in ROWS.keys() - moved} == {200}
    assert {found[key].status for key in {*keys} - ROWS.keys() - moved} == {404}
    two.close()


@pytest.mark.parametrize("makes", ["no folder", "a push that cannot be read"])
def test_an_instance_without_a_store_waits_until_it_knows_the_pushes(
    tmp_path: Path, view: View, folder: Path, makes: str
) -> None:
    """The topic alone would give a 404 for pushed keys."""
    id_ = push(folder, view, [0], ROWS)
    hidden = folder / id_ / "manifest.json" if makes != "no folder" else folder
    hidden.rename(tmp_path / "hidden")
    new = Cluster(tmp_path / "new", view, instances=1, partitions=1)
    new.place([B1])
    for _ in range(3):
        new.settle()
    answer = new.ask("b1", "GET", "/orders/k1")
    assert (answer.status, json.loads(answer.body)["code"]) == (503, "catching-up")
    (tmp_path / "hidden").rename(hidden)
    for _ in range(3):
        new.settle()
    assert new.ask("b1", "GET", "/orders/k1").status == 200
    new.close()


def test_an_instance_that_has_seen_no_push_waits_until_it_can_read_the_first_one(
    tmp_path: Path, view: View, folder: Path
) -> None:
    """Regression: it counted as a view without a push, and pushed keys were 404."""
    new = Cluster(tmp_path / "new", view, instances=1, partitions=1)
    new.place([NO_MEMBER])
    new.settle()
    hidden = folder / push(folder, view, [0], ROWS) / "manifest.json"
    hidden.rename(tmp_path / "hidden")
    new.settle()
    new.place([B1])
    for _ in range(3):
        new.settle()
    answer = new.ask("b1", "GET", "/orders/k1")
    assert (answer.status, json.loads(answer.body)["code"]) == (503, "catching-up")
    (tmp_path / "hidden").rename(hidden)
    for _ in range(3):
        new.settle()
    assert new.ask("b1", "GET", "/orders/k1").status == 200
    new.close()


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_store_is_copied_from_another_instance_if_the_push_cannot_be_used(
    tmp_path: Path, view: View, folder: Path, is_damaged: bool
) -> None:
    """The first attempt may have failed because the other instances were busy or starting."""
    id_ = push(folder, view, [0], ROWS)
    if is_damaged:
        [file] = manifest_of(folder, id_).files
        (folder / id_ / file.name).write_bytes(b"")
    new = Cluster(tmp_path / "new", view, instances=1, partitions=1)
    asked: list[tuple[str, int]] = []

    class Snapshots(NoSnapshots):
        def retry(self, view: View, partition: int) -> None:
            asked.append((view.name, partition))

    new.nodes["b1"].ingest.lifecycle._snapshots = cast(Any, Snapshots())
    new.place([B1])
    for _ in range(3):
        new.settle()
    assert (("orders", 0) in asked) == is_damaged
    assert new.ask("b1", "GET", "/orders/k1").status == (503 if is_damaged else 200)
    new.close()


def test_manifests_are_read_as_they_were_written(view: View, folder: Path) -> None:
    id_ = push(folder, view, [3], ROWS, {"other": "1"})
    manifest = manifest_of(folder, id_)
    assert Manifest.decode(manifest.encode()) == manifest
    assert (manifest.entries, manifest.position(0), manifest.mismatch(view)) == (21, 3, None)
