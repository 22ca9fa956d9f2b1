"""What `check` says of keys and values that are not in the view's format."""

from __future__ import annotations

import struct
from dataclasses import replace

from model.views_file import parse_views
from queryable.cli.check.formats import shown
from queryable.cli.check.topics import check_records
from queryable.cli.inspection.samples import SampledRecord

[VIEW] = parse_views('[views.t]\ntopic = "t"\nkey = "int64"\nvalue = "json"\n').views


def sample(*pairs: tuple[bytes, bytes]) -> list[SampledRecord]:
    return [SampledRecord(0, 1, key, value, {}) for key, value in pairs]


def test_all_keys_are_in_another_format() -> None:
    records = sample(*((b"C%05d" % n, b"1") for n in range(600)))
    keys, values, _ = check_records(VIEW, 1, records)
    assert keys.status == "wrong"
    assert keys.message.startswith(
        'all 600 keys of topic t do not fit key = "int64" in a key-value store: these records are '
        'in no answer, and become dead letters. "C00000" (6 bytes) is '
    )
    assert "they look like string (all are text)" in keys.message
    assert keys.action.startswith('set key = "string" in [views.t]')
    assert values.status == "ok"


def test_some_values_are_in_another_format() -> None:
    records = sample(*((struct.pack(">q", n), b"{" if n < 2 else b'{"n":1}') for n in range(9)))
    keys, values, _ = check_records(VIEW, 1, records)
    assert keys.status == "ok"
    assert values.message.startswith(
        '2 of 9 values of topic t do not fit value = "json": reads of their keys are refused '
        '(value-unreadable), and they become dead letters. "{" (1 byte) is '
    )
    _, values, _ = check_records(replace(VIEW, unreadable="skip"), 1, records)
    assert "these records are skipped" in values.message


def test_values_with_a_schema_id_are_named_without_a_guess() -> None:
    """Regression: Protobuf was said to look like Avro, and value_schema was left out."""
    records = sample(*((struct.pack(">q", n), b"\0\0\0\0\7\0\x08\1\x10\2") for n in range(9)))
    _, values, _ = check_records(VIEW, 1, records)
    assert values.message.endswith("; they are framed by Confluent's serializers, schema 7")
    assert values.action.startswith(
        'set value = "avro" or "protobuf", value_schema = "confluent" and a table [schemas] in '
    )


def test_bytes_are_shown_without_control_characters() -> None:
    assert shown(b"a\x1b[2J") == '"a\\x1b[2J" (5 bytes)'
    assert shown(b"\xff\0") == "0xff00 (2 bytes)"
    assert shown(b"x" * 100) == f'"{"x" * 40}…" (100 bytes)'
    assert shown(b"\xff" * 100) == f"0x{'ff' * 20}… (100 bytes)"
