"""The field `push` in views.toml, the folders that it names, and the offsets of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.problems import ConfigurationError
from model.pushes.manifest import ManifestError, Pinned, check_id, decode_current, push_url
from model.records import decode_entry, entry_head, is_pushed, pushed_offset, tombstone_entry
from model.views import View
from model.views_file import parse_views

PINNED = Pinned("orders", "orders", "id", 17, {"orders": {0: 3, 1: 0}, "raw": {0: 9}})


def view_with(**fields: str) -> View:
    declared = {"topic": "orders", "key": "string", "value": "json", **fields}
    lines = "\n".join(f'{name} = "{value}"' for name, value in declared.items())
    [view] = parse_views(f"[views.orders]\n{lines}\n").views
    return view


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"push": "p", "persistence": "memory"},
            'line 5, .* not with persistence = "memory"',
        ),
        ({"push": "p", "partitioner": "none"}, 'push: not with partitioner = "none"'),
        ({"push": "p", "store": "backend.storage.bloom_filter:BloomFilter"}, "custom store"),
        ({"push": "s3://key:secret@bucket/x"}, "without a password"),
    ],
)
def test_a_push_that_is_not_possible_is_refused(fields: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        view_with(**fields)


def test_a_folder_for_pushes_does_not_change_the_view() -> None:
    with_pushes, without = view_with(push="hdfs://me@namenode/orders"), view_with()
    assert with_pushes.push == "hdfs://me@namenode/orders"
    assert with_pushes.hash == without.hash, "no store is rebuilt"


def test_a_relative_folder_is_beside_views_toml() -> None:
    file = Path("/etc/queryable/views.toml")
    assert push_url("pushes/orders", file) == "/etc/queryable/pushes/orders"
    assert push_url("/srv/pushes", file) == "/srv/pushes"
    assert push_url("s3://bucket/orders", file) == "s3://bucket/orders"


def test_pinned_offsets_are_read_as_they_were_written() -> None:
    assert Pinned.decode(PINNED.encode()) == PINNED
    assert PINNED.partitions == 2


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", PINNED.encode().replace('"1"', '"2"'), PINNED.encode()[:-1]]
)
def test_other_texts_are_no_offsets(text: str) -> None:
    with pytest.raises(ManifestError):
        Pinned.decode(text)


@pytest.mark.parametrize("push", ["", ".", "..", "../x", "a/b", "a" * 101, "a\n"])
def test_ids_are_names_of_folders(push: str) -> None:
    with pytest.raises(ManifestError):
        check_id(push)
    with pytest.raises(ManifestError):
        decode_current(b"x" * 20_000)


def test_a_pushed_entry_has_an_offset_that_no_record_has() -> None:
    offset = pushed_offset("20260102T030405.678Z-1f0c")
    assert is_pushed(offset)
    assert not is_pushed(1 << 61)
    assert offset != pushed_offset("20260102T030405.678Z-1f0d")
    assert decode_entry(entry_head(5, offset) + b"v") == (5, offset, b"v")
    assert decode_entry(tombstone_entry(5, offset)) == (5, offset, None)
