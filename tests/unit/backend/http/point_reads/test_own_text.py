"""Every key that a scan lists is found by its own text, by each instance: by a point read, a search
and a batch."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest

from model.views import View
from tests.support.in_process.examples import view
from tests.support.in_process.world import NDJSON, world
from tests.unit.model.test_listed_keys import LOWERED, PROTOBUF, avro_text, one_block, sized_block
from tests.unit.model.test_listed_keys import in_url as text_in_url

ENTRIES = [avro_text(key) + avro_text(value) for key, value in (("b", "1"), ("a", "2"))]
MAP = json.dumps({"type": "map", "values": "string"})
ID = b"0b4b7e36-7e2d-4d5c-9a0f-3b1f0a7c9e1a"


def doubles(*bits: int) -> list[bytes]:
    return [struct.pack(">Q", each) for each in bits]


TEXTS = ("a", "a/b", "%2F", "+", "é\n", '"', " ", "ÿ")
NUMBERS = (0, 1, 7, -1, 2**31 - 1)
NANS = (0x7FF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001, 0xFFF8000000000000)
CASES: dict[str, tuple[View, list[bytes]]] = {
    "string": (view(key="string"), [each.encode() for each in TEXTS]),
    "bytes": (view(key="bytes"), [b"\0", b"\xff\xfe", b"YQ", b"a"]),
    "int32": (view(key="int32"), [n.to_bytes(4, "big", signed=True) for n in NUMBERS]),
    "int64": (view(key="int64"), [n.to_bytes(8, "big", signed=True) for n in NUMBERS]),
    "float64": (
        view(key="float64"),
        doubles(0, 1, 0x8000000000000000, 0x3FF8000000000000, 0x7FF0000000000000,
                0xFFF0000000000000, *NANS),
    ),
    "uuid": (view(key="uuid"), [ID, ID.upper(), ID[:18] + ID[18:].upper()]),
    "json": (view(key="json"), [b'{"b": 1,"a":2}', b'{"a":2,"b":1}', b'"x"', b"1", b"1.0", b"1e0"]),
    "avro": (
        replace(view(key="avro"), key_schema=MAP),
        [one_block(ENTRIES), one_block(ENTRIES[::-1]), sized_block(ENTRIES), b"\0"],
    ),
    "protobuf": (
        replace(view(key="protobuf"), key_schema=orjson.dumps(PROTOBUF.schema_document).decode()),
        [b"\x08\x07", b"\x08\x07\xf8\x07\x01", b"\x1a\x01x\x08\x07", b"\x08\x07\x1a\x01x"],
    ),
    LOWERED: (view(key=LOWERED), [b"a", b"A", b"aB"]),
}  # fmt: skip


def in_url(name: str, document: bytes) -> str:
    encoding = "?encoding=base64url" if name == "bytes" else ""
    return quote(text_in_url(name, document), safe="") + encoding


@pytest.mark.parametrize("instance", ["b1", "b2"])
@pytest.mark.parametrize("name", CASES)
def test_each_listed_key_is_found(tmp_path: Path, name: str, instance: str) -> None:
    of, keys = CASES[name]
    with world(tmp_path, of) as made:
        made.put_all({key: b"%d" % number for number, key in enumerate(keys)})
        lines = made.ask("keys?limit=100", instance, accept=NDJSON).body.splitlines()
        page = made.ask("keys?limit=100", instance).json["items"]
        assert [orjson.loads(line) for line in lines if b'"key"' in line] == page
        assert sorted(item["value"] for item in page) == list(range(len(keys)))
        for line, item in zip(lines, page, strict=False):
            document = line.removeprefix(b'{"key":').rpartition(b',"value":')[0]
            answer = made.ask(f"keys/{in_url(name, document)}", instance)
            assert (answer.status, answer.json) == (200, item), document
            if name == LOWERED and not document.startswith(b"{"):
                continue  # its bodies have another text
            body = b'{"query":%b}' % document
            search = made.ask("search", instance, method="POST", body=body)
            assert (search.status, search.json) == (200, item), document
            [of_batch] = made.batch(b'{"keys":[%b]}' % document, instance).json["items"]
            assert of_batch == {"status": 200, **item}
