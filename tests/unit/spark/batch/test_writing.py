"""What tasks and the driver write, without Spark's Java process: rows, files and the folder."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from model.kinds.expiry import decode_index_key
from model.partitioner import partition_of
from model.records import ENTRY, decode_entry, is_pushed
from model.views import View
from spark.batch import folder as folder_module
from spark.batch.encoder import Encoder, Entries, RowError
from spark.batch.folder import PushFolder, new_id
from spark.batch.sst_files import has_duplicates, key_hashes, write_file
from spark.batch.writer import PushWriter, TaskFiles
from tests.support.in_process.examples import ORDERS
from tests.support.pushes import manifest_of, pinned, push

NOW = 1_700_000_000_000
MAPS = pa.array([[("x", 1), ("y", 2)]], pa.map_(pa.string(), pa.int64()))


def encoded(view: View, columns: dict[str, Any], partitions: int = 1) -> dict[bytes, bytes | None]:
    """Stored key, without its first byte -> value, of all partitions."""
    batch = pa.RecordBatch.from_pydict(columns)
    found: dict[bytes, bytes | None] = {}
    for entries in Encoder(view, partitions, "p", NOW).encode(batch).values():
        for key, stored in zip(entries.keys, entries.values, strict=True):
            entry = decode_entry(stored)
            assert key[:1] == ENTRY
            assert is_pushed(entry.offset)
            found[key[1:]] = entry.value
    return found


@pytest.mark.parametrize(
    ("fields", "columns", "expected"),
    [
        ({}, {"key": ["a"], "value": ['{"n": 1}']}, {b"a": b'{"n": 1}'}),
        ({}, {"key": [b"a"], "value": [b"[1]"]}, {b"a": b"[1]"}),
        ({}, {"key": ["a"], "value": [{"n": 1, "x": None}]}, {b"a": b'{"n":1,"x":null}'}),
        ({}, {"key": ["a"], "n": [1], "x": ["é"]}, {b"a": '{"n":1,"x":"é"}'.encode()}),
        ({}, {"key": ["a", "b"], "value": [None, "1"]}, {b"b": b"1"}),
        ({}, {"key": ["a"], "value": MAPS}, {b"a": b'{"x":1,"y":2}'}),
        ({}, {"key": ["a"], "n": MAPS}, {b"a": b'{"n":{"x":1,"y":2}}'}),
        ({"value": "int64"}, {"key": ["a"], "value": [-2]}, {b"a": struct.pack(">q", -2)}),
        ({"value": "int64"}, {"key": ["a"], "value": ["7"]}, {b"a": struct.pack(">q", 7)}),
        ({"value": "float64"}, {"key": ["a"], "value": [0.5]}, {b"a": struct.pack(">d", 0.5)}),
        ({"value": "none"}, {"key": ["a"], "value": [b"x"]}, {b"a": b""}),
        ({"key": "int32"}, {"key": [1, -1], "value": ["1", "2"]},
         {b"\x80\0\0\x01": b"1", b"\x7f\xff\xff\xff": b"2"}),
        ({"key": "bytes"}, {"key": [b"\0\xff"], "value": ["1"]}, {b"\0\xff": b"1"}),
    ],
)  # fmt: skip
def test_rows_become_entries_in_the_views_formats(
    fields: dict[str, Any], columns: dict[str, Any], expected: dict[bytes, bytes]
) -> None:
    assert encoded(replace(ORDERS, **fields), columns) == expected


@pytest.mark.parametrize(
    ("fields", "columns", "error"),
    [
        ({}, {"key": [None], "value": ["1"]}, "no key"),
        ({}, {"key": ["a"], "value": ["{"]}, "the value of key b'a' is not json"),
        ({}, {"key": [b"\xff"], "value": ["1"]}, "is not string"),
        ({"value": "int64"}, {"key": ["a"], "value": [b"12"]}, "is not int64"),
        ({"value": "int64"}, {"key": ["a"], "value": [0.5]}, "does not fit"),
        ({"key": "int32"}, {"key": [1 << 40], "value": ["1"]}, "out of the range"),
        ({}, {"key": ["a"], "value": ["1"], "timestamp": ["x"]}, "timestamp"),
        ({"store": "window"}, {"key": [b"short"], "value": ["1"]}, "windowed"),
    ],
)
def test_a_row_that_cannot_be_an_entry_is_an_error(
    fields: dict[str, Any], columns: dict[str, Any], error: str
) -> None:
    with pytest.raises(RowError, match=error):
        encoded(replace(ORDERS, **fields), columns)


def test_entries_are_in_the_partitions_of_their_bare_keys() -> None:
    view = replace(ORDERS, store="window")
    bare = [f"k{n}".encode() for n in range(100)]
    keys = [key + struct.pack(">qi", 1_000, 0) for key in bare]
    batch = pa.RecordBatch.from_pydict({"key": keys, "value": ["1"] * 100})
    by_partition = Encoder(view, 5, "p", NOW).encode(batch)
    place = partition_of("murmur2")
    for partition, entries in by_partition.items():
        assert {place(view.layout.entry_key(key).key, 5) for key in entries.keys} == {partition}
    assert sum(len(entries.keys) for entries in by_partition.values()) == 100


def test_entries_of_a_view_with_retention_are_in_the_expiry_index() -> None:
    view = replace(ORDERS, retention=1000)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    batch = pa.RecordBatch.from_pydict(
        {"key": ["a", "b"], "value": ["1", "2"],
         "timestamp": pa.array([at, None], pa.timestamp("us", "UTC"))}
    )  # fmt: skip
    [entries] = Encoder(view, 1, "p", NOW).encode(batch).values()
    times = {key[1:]: time for time, key in map(decode_index_key, entries.index)}
    assert times == {b"a": int(at.timestamp() * 1000), b"b": NOW}


def test_a_null_value_in_a_versioned_view_is_a_deletion() -> None:
    view = replace(ORDERS, store="versioned")
    found = encoded(view, {"key": ["a", "a"], "value": ["1", None], "timestamp": [1, 2]})
    assert list(found.values()) == [b"1", None]


def test_a_key_that_is_twice_in_a_file_is_an_error(tmp_path: Path) -> None:
    entries = Entries([b"\x01b", b"\x01a", b"\x01b"], [b"1", b"2", b"3"])
    with pytest.raises(RowError, match="the key b'b' is in several rows"):
        write_file(tmp_path / "x.sst", 0, entries)


@pytest.mark.parametrize("second", ["k5", "zzz"])
def test_a_key_in_the_rows_of_two_tasks_is_an_error(tmp_path: Path, second: str) -> None:
    rows = {f"k{n}": "1" for n in range(10)}
    others = {"k00": "2", second: "2"}
    if second == "zzz":
        push(tmp_path, ORDERS, [0], rows, others)
        return
    with pytest.raises(RowError, match="several rows"):
        push(tmp_path, ORDERS, [0], rows, others)
    assert not (tmp_path / "current.json").exists()


def test_hashes_find_equal_keys_only() -> None:
    one, two = [b"%d" % n for n in range(2000)], [b"%d" % n for n in range(2000, 4000)]
    assert not has_duplicates([key_hashes(one), key_hashes(two)])
    assert has_duplicates([key_hashes(one), key_hashes([*two, b"1999"])])


def test_abort_deletes_what_was_written_but_not_a_published_push(tmp_path: Path) -> None:
    folder = PushFolder(str(tmp_path), new_id())
    writer = PushWriter(ORDERS, pinned(ORDERS, [0]), folder, "", keep=3)
    batch = pa.RecordBatch.from_pydict({"key": ["a"], "value": ["1"]})
    writer.write(iter([batch]))
    assert len(list((tmp_path / folder.push).iterdir())) == 2
    writer.abort([None])
    assert list(tmp_path.iterdir()) == []
    written = writer.write(iter([batch]))
    writer.commit([written])
    writer.abort([written])
    assert manifest_of(tmp_path, folder.push).entries == 1


def test_an_error_after_the_publication_does_not_fail_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(PushFolder, "delete_older", fail)
    id_ = push(tmp_path, ORDERS, [0], {"a": "1"})
    assert json.loads((tmp_path / "current.json").read_bytes()) == {"push": id_}


def test_the_folder_keeps_the_newest_pushes_and_running_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    running, dead = new_id(), "20200101T000000.000000Z-0a0b0c0d"
    for name in (running, dead):
        (tmp_path / name).mkdir()
    pushes = [push(tmp_path, ORDERS, [0], {"a": "1"}, keep=2) for _ in range(4)]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"notes", "current.json", running, *pushes[2:]}
    assert folder_module._UNFINISHED_FOR.days == 7


def test_an_empty_frame_is_an_empty_view(tmp_path: Path) -> None:
    folder = PushFolder(str(tmp_path), new_id())
    writer = PushWriter(ORDERS, pinned(ORDERS, [0, 0]), folder, "", keep=3)
    writer.commit([TaskFiles(), TaskFiles()])
    assert manifest_of(tmp_path, folder.push).files == ()
