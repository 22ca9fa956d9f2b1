"""Coalesced reads of keys of every format: each gets the bytes of a single read, or has to be sent
separately."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from backend.http.router import Router
from backend.wire.answer import Answer
from backend.wire.point_batch import Reads, key_format_of
from model.formats.avro.schema import AvroSchema
from model.formats.base64url import to_base64url
from model.records import ENTRY, entry_head, unreadable_entry
from model.views import View
from tests.support.in_process.examples import view
from tests.support.in_process.instance import Instance
from tests.support.in_process.requests import asked
from tests.support.point_batch import groups_of
from tests.unit.backend.http.point_reads.instances import holding, write
from tests.unit.backend.http.point_reads.test_batched_keys import answers_to
from tests.unit.model.test_listed_keys import avro_text

UUID = "0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e1a"
CUSTOM = "tests.unit.model.kinds.test_custom:Lengths"


@dataclass(frozen=True)
class Keys:
    """Keys of one format, by the text of a URL that means them: those of the view, others that it
    does not have, and bytes that are no key of the format."""

    of: View
    stored: Mapping[str, bytes]
    missing: Mapping[str, bytes]
    invalid: tuple[bytes, ...] = ()


def integers(size: int, *numbers: int) -> dict[str, bytes]:
    return {str(n): n.to_bytes(size, "big", signed=True) for n in numbers}


def doubles(*texts: str) -> dict[str, bytes]:
    return {text: struct.pack(">d", float(text)) for text in texts}


def as_it_is(*texts: str) -> dict[str, bytes]:
    return {text: text.encode() for text in texts}


def avro(schema: str) -> View:
    return replace(view(key="avro"), key_schema=schema)


FORMATS = {
    "string": Keys(
        view(key="string"),
        as_it_is("a", "a b", "a/b", "100%", "é", "日本", "a+b", "..", "\x7f"),
        as_it_is("b", " ", "ÿ", "%61"),
        (b"\xff", b"a\xc3", b"\xed\xa0\x80"),
    ),
    "bytes": Keys(view(key="bytes"), as_it_is("\1", "a\nb", "\n", "ä", '"'), as_it_is("\r\n")),
    "int32": Keys(
        view(key="int32"), integers(4, 0, 10, -1, 2**31 - 1, -(2**31)), integers(4, 7, 0x0A0A0A0A),
        (b"", b"\0", b"\0" * 5),
    ),
    "int64": Keys(
        view(key="int64"), integers(8, 0, 10, -1, 2**63 - 1, -(2**63)), integers(8, 7, 2560),
        (b"\0" * 7,),
    ),
    "float64": Keys(
        view(key="float64"), doubles("0.0", "-0.0", "1.5", "-1e300", "Infinity", "NaN"),
        doubles("5e-324", "-Infinity"), (b"\n" * 9,),
    ),
    "uuid": Keys(
        view(key="uuid"), as_it_is(UUID, UUID.replace("0b", "0C").upper()),
        as_it_is(UUID.replace("0b", "0d")), (b"0" * 36,),
    ),
    "json": Keys(
        view(key="json"), as_it_is('{"b": 1,"a":2}', '"x"', "1", "1.0", "[1,\n2]", '["日"]'),
        as_it_is("null", '{"a":2,"b":1}'), (b"[", b"nul", b"\xff", b'"\xff"'),
    ),
    "avro": Keys(
        avro('"string"'), {f'"{text}"': avro_text(text) for text in ("", "a", "é", "12345")},
        {'"b"': avro_text("b")}, (b"\2\xff", b"\4a", b""),
    ),
    "avro long": Keys(
        avro('"long"'), {str(n): bytes([n * 2 ^ n >> 63]) for n in (0, 5, -6, 13)},
        {str(n): bytes([n * 2 ^ n >> 63]) for n in (1, -1)}, (b"\x80", b""),
    ),
}  # fmt: skip
STORES = ("key-value", "global", "versioned")


@contextmanager
def storing(folder: Path, keys: Keys, of: View) -> Iterator[tuple[Instance, Router]]:
    """An instance whose only partition has the keys; the values are 0, 1, 2, …"""
    with holding(folder, of, {}, partitions=1) as instance:
        store_partition = instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        write(store_partition, {
            of.layout.stored_key(key, 7): entry_head(7, number) + b"%d" % number
            for number, key in enumerate(keys.stored.values())
        })  # fmt: skip
        yield instance, Router(instance.context, None)  # type: ignore[arg-type]


def in_batch(shell: Router, of: View, keys: list[bytes]) -> dict[bytes, Answer | None]:
    return answers_to(shell, groups_of(of, keys, 1), are_text=of.key == "string")


Told = tuple[int, dict[bytes, bytes], bytes]


def singly(shell: Router, text: str) -> Told:
    status, headers, body = asked(shell, "/views/orders/keys/" + quote(text, safe=""))
    return status, {**headers, b"staleness": b""}, body


def told(answer: Answer) -> Told:
    return answer.status, {**dict(answer.headers), b"staleness": b""}, answer.body


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", FORMATS)
def test_keys_of_each_format(tmp_path: Path, name: str, store: str) -> None:
    keys = FORMATS[name]
    of = replace(keys.of, store=store, retention=1000 if store == "versioned" else None)
    with storing(tmp_path, keys, of) as (instance, shell):
        by_text = {**keys.stored, **keys.missing}
        answers = in_batch(shell, of, list(by_text.values()))
        counts = instance.context.telemetry.counts["orders"]
        assert (counts.found, counts.missed) == (len(keys.stored), len(keys.missing))
        for text, key in by_text.items():
            answer = answers[key]
            assert answer is not None, text
            assert answer.status == (200 if text in keys.stored else 404)
            assert told(answer) == singly(shell, text), text


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", [name for name, keys in FORMATS.items() if keys.invalid])
def test_bytes_that_are_no_key_of_the_format_are_sent_separately(
    tmp_path: Path, name: str, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer to a single read is 400: 404 would say that there could be such a key."""
    keys = FORMATS[name]
    of = replace(keys.of, store=store, retention=1000 if store == "versioned" else None)
    with storing(tmp_path, keys, of) as (_, shell):
        for key in keys.invalid:
            encoded = to_base64url(key).decode()
            path = f"/views/orders/keys/{encoded}?encoding=base64url"
            assert key == b"" or asked(shell, path)[0] == 400
            assert in_batch(shell, of, [key]) == {key: None}
    assert not caplog.records


def test_invalid_text_does_not_delay_other_keys(tmp_path: Path) -> None:
    keys = FORMATS["string"]
    with storing(tmp_path, keys, keys.of) as (_, shell):
        answers = in_batch(shell, keys.of, [b"a", b"\xff", b"nobody"])
        statuses = {key: answer and answer.status for key, answer in answers.items()}
        assert statuses == {b"a": 200, b"\xff": None, b"nobody": 404}


def test_a_text_that_may_mean_another_key_is_sent_separately(tmp_path: Path) -> None:
    """A UUID in capitals means the key in lower case, if there is no key in capitals."""
    keys = FORMATS["uuid"]
    lower, capitals = keys.stored.values()
    with storing(tmp_path, keys, keys.of) as (_, shell):
        missing = capitals.replace(b"0C", b"0D")
        answers = in_batch(shell, keys.of, [lower, lower.upper(), capitals, missing])
        statuses = {key: answer and answer.status for key, answer in answers.items()}
        assert statuses == {lower: 200, lower.upper(): None, capitals: 200, missing: None}
        status, _, body = singly(shell, lower.upper().decode())
        assert (status, body) == (200, b'{"key":"%b","value":0}' % lower)


@pytest.mark.parametrize("name", FORMATS)
def test_unreadable_values_are_sent_separately(tmp_path: Path, name: str) -> None:
    keys = replace(FORMATS[name], of=replace(FORMATS[name].of, value="int32"))
    first, *others = keys.stored.values()
    with storing(tmp_path, keys, keys.of) as (instance, shell):
        store_partition = instance.context.store_partitions.get("orders", 0)
        assert store_partition is not None
        entries = {keys.of.layout.stored_key(key): entry_head(7, 9) + b"\0\0\0\5" for key in others}
        unreadable = {keys.of.layout.stored_key(first): unreadable_entry(7, 8, b"\0")}
        write(store_partition, {**entries, **unreadable})
        answers = in_batch(shell, keys.of, [first, *others])
        assert answers.pop(first) is None
        assert singly(shell, next(iter(keys.stored)))[0] == 406
        assert {answer and answer.status for answer in answers.values()} == {200}


def is_alone(shell: Router, words: bytes, key: bytes) -> bool:
    return answers_to(shell, [Reads(words, [ENTRY + key])]) == {key: None}


def test_the_format_must_be_that_of_the_view(tmp_path: Path) -> None:
    """nginx may have an older topology, with another format of the keys."""
    longs, texts = avro('"long"'), avro('"string"')
    fingerprints = [AvroSchema(of.key_schema or "").fingerprint for of in (longs, texts)]
    assert key_format_of(longs) == f"avro:{fingerprints[0]}"
    with storing(tmp_path, FORMATS["avro long"], longs) as (_, shell):
        assert not is_alone(shell, b"orders %b murmur2 1 0" % key_format_of(longs).encode(), b"\0")
        for name in ("avro", f"avro:{fingerprints[1]}", "int64", "string", ""):
            assert is_alone(shell, b"orders %b murmur2 1 0" % name.encode(), b"\0"), name
        assert is_alone(shell, b"orders murmur2 1 0", b"\0"), "of an earlier release: text"


@pytest.mark.parametrize(
    "fields",
    [{"store": "window", "retention": 1000, "window_size": 10},
     {"store": "session", "retention": 1000}, {"store": CUSTOM}],
)  # fmt: skip
def test_other_stores_have_no_such_keys(tmp_path: Path, fields: dict[str, Any]) -> None:
    of = replace(view(), **fields)
    with holding(tmp_path, of, {}, partitions=1) as instance:
        shell = Router(instance.context, None)  # type: ignore[arg-type]
        assert is_alone(shell, b"orders string murmur2 1 0", b"a")
