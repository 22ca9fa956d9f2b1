"""Entries of views.toml for changelogs."""

from __future__ import annotations

import pytest

from model.times import DAY
from model.views_file import parse_views
from queryable.cli.adopt.entries import view_entry
from queryable.cli.adopt.prompts import no_answer
from queryable.cli.adopt.schemas import Schemas
from queryable.cli.inspection.deleted_records import find_deleted_records
from queryable.cli.inspection.inference import Inference
from queryable.cli.inspection.samples import SampledRecord
from queryable.client.protocol.errors import BadUse
from tests.support.in_process.avro_examples import registry
from tests.unit.queryable.cli.inspection.records import (
    BOTH,
    COMPACT,
    HOUR,
    MINUTE,
    NOW,
    record,
    record_in,
    sample_of,
    sessions,
    windows,
)

NO_SCHEMAS = Schemas()
FRAMED = [SampledRecord(n % 3, NOW, b"k%d" % n, b"\0\0\0\0\7\x06abc", {}) for n in range(50)]


@pytest.mark.parametrize(
    ("store", "config", "records"),
    [
        ("a.b", BOTH, windows(HOUR, HOUR, [b"a"])),
        ("visits", BOTH, sessions([b"a"])),
        ("odd", {**BOTH, "retention.ms": str(DAY + 1_234_567_891)}, sessions([b"a"])),
        ("for-ever", {**BOTH, "retention.ms": str(2**63 - 1)}, sessions([b"a"])),
        ("empty", BOTH, []),
        ("versions", {**COMPACT, "min.compaction.lag.ms": str(DAY + 1)}, [record(b"a")]),
    ],
)
def test_entry_is_valid_views_toml(
    store: str, config: dict[str, str], records: list[SampledRecord]
) -> None:
    text = view_entry(store, f"app-{store}-changelog", 3, config, records, no_answer, NO_SCHEMAS)
    [view] = parse_views(text).views
    assert (view.name, view.topic) == (store, f"app-{store}-changelog")
    # uncertain fields are marked
    assert "TODO?" in text


def test_framed_values_are_those_of_their_schema() -> None:
    with pytest.raises(BadUse, match=r"values of app-s-changelog .* schema 7: .*--schema-registry"):
        view_entry("s", "app-s-changelog", 3, COMPACT, FRAMED, no_answer, NO_SCHEMAS)
    with registry() as running:
        running.add(7, "string")
        schemas = Schemas(running.url)
        entry = view_entry("s", "app-s-changelog", 3, COMPACT, FRAMED, no_answer, schemas)
    [view] = parse_views(schemas.toml + entry).views
    assert (view.value, view.value_schema) == ("avro", "confluent")


def test_answers_replace_inferred_values() -> None:
    answers = {"store": "session", "key": "int64", "value": "bytes", "retention": "5m"}
    asked = []

    def ask(topic: str, field: str, guessed: Inference) -> str:
        asked.append(field)
        return answers.get(field, guessed.value or "-")

    text = view_entry("s", "app-s-changelog", 3, BOTH, [], ask, NO_SCHEMAS)
    [view] = parse_views(text).views
    assert asked == ["store", "key", "value", "retention", "partitioner"]
    assert (view.store, view.key, view.value) == ("session", "int64", "bytes")
    assert view.retention == 5 * MINUTE
    assert "TODO?" not in text


def test_key_in_several_partitions_gives_same_key_partial() -> None:
    records = [record_in(b"key %d" % n, p) for n in range(9) for p in range(3)]
    text = view_entry("s", "app-s-changelog", 3, COMPACT, records, no_answer, NO_SCHEMAS)
    [view] = parse_views(text).views
    assert (view.partitioner, view.same_key) == ("none", "partial")
    assert "ambiguous-key" in text
    # a key that was deleted from the other partitions is in one partition
    once = [
        *(record_in(b"a", p) for p in range(3)),
        record_in(b"a", 0, None),
        record_in(b"a", 1, None),
    ]
    assert "same_key" not in view_entry(
        "s", "app-s-changelog", 3, COMPACT, once, no_answer, NO_SCHEMAS
    )


def test_emptied_changelog_gives_only_a_comment() -> None:
    gone = find_deleted_records(BOTH, sample_of([], [(7, 7), (0, 0)]), None, NOW)
    text = view_entry("s", "app-s-changelog", 2, BOTH, [], no_answer, NO_SCHEMAS, gone)
    assert text.startswith("# app-s-changelog: not proposed, the broker has deleted all 7 records")
    assert "[views" not in text


@pytest.mark.parametrize(
    ("store", "headers"),
    [
        ("KSTREAM-OUTERSHARED-0000000004-store", {}),
        ("both-outer-shared-join-store", {}),
        ("seen-left-shared-join-store", {}),
        ("suppressed-store", {"v": b"\3"}),
        ("suppressed-long-ago-store", {"v": b"\1"}),
    ],
)
def test_internal_store_gives_only_a_comment(store: str, headers: dict[str, bytes]) -> None:
    records = [SampledRecord(0, NOW, b"a", b"x", headers)]
    text = view_entry(store, f"app-{store}-changelog", 1, COMPACT, records, no_answer, NO_SCHEMAS)
    assert text.startswith(f"# app-{store}-changelog: not proposed")
    assert "[views" not in text
