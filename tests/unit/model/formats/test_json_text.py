"""What is JSON: the same as for Node.js, Jackson and Go."""

from __future__ import annotations

import json
import math
import struct
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.formats.format import parse_json
from model.formats.json import JsonCodec
from model.formats.json_decoder import decode_body, decode_json
from model.formats.json_text import (
    MAX_LEVELS,
    PYTHON_LEVELS,
    check_json_text,
    is_deeper,
    parse_json_text,
)
from tests.vectors.json_cases import BAD, CASES, GOOD, REASONS, STRICTER, document, verdicts

VERDICTS = verdicts()


def test_node_jackson_and_go_agree() -> None:
    """Only on limits, which the RFC leaves open, they do not."""
    assert {name: bytes.fromhex(verdict["text"]) for name, verdict in VERDICTS.items()} == CASES
    for name, verdict in VERDICTS.items():
        accepted = tuple(verdict[program] for program in ("node", "jackson", "go"))
        is_good = name in GOOD
        if name in ("1,025 levels", "2,000 levels"):
            assert accepted == (True, False, True)
        else:
            assert accepted == (is_good, is_good and name not in STRICTER, is_good), name
            assert verdict["in_go"] == {} or is_good, name


def test_values_are_those_of_node_and_go() -> None:
    for name in GOOD:
        in_node, in_go = VERDICTS[name]["in_node"], VERDICTS[name]["in_go"]
        # Go refuses a number beyond a double, which is infinite in Node.js and here.
        assert in_go.get("double", in_node.get("double")) == in_node.get("double"), name
        value = decode_json(document(name)).get("v")
        if value is None:
            assert in_go == dict.fromkeys(("boolean", "double", "int", "long", "string")), name
            continue
        is_number = type(value) in (int, float)
        found = {
            "boolean": value if type(value) is bool else None,
            "double": _bits(value) if is_number else None,
            "long": value if type(value) is int and -(2**63) <= value < 2**63 else None,
            "string": _well_formed(value) if type(value) is str else None,
        }
        wanted = {**dict.fromkeys(found), **in_node, **in_go}
        wanted.pop("int", None)
        if value == 0 and type(value) is int:
            wanted["double"] = "0" * 16  # -0 as a whole number has no sign
        assert found == wanted, name


def _bits(number: float) -> str:
    try:
        return struct.pack(">d", float(number)).hex()
    except OverflowError:  # a whole number beyond a double
        return struct.pack(">d", math.inf if number > 0 else -math.inf).hex()


def _well_formed(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@pytest.mark.parametrize("text", GOOD.values(), ids=list(GOOD))
def test_json_is_accepted_as_it_is(text: bytes) -> None:
    codec = JsonCodec()
    codec.check(text)
    assert codec.from_text(text) == text
    decode_body(text)
    decode_json(text)


@pytest.mark.parametrize(("name", "text"), BAD.items(), ids=list(BAD))
def test_what_is_no_json_has_a_reason(name: str, text: bytes) -> None:
    for parse in (JsonCodec().check, decode_body):
        with pytest.raises(ValueError, match=REASONS.get(name, "not JSON: ")):
            parse(text)
    if name not in REASONS:
        with pytest.raises(ValueError, match=r"."):
            decode_json(text)


def test_values_are_those_of_pythons_parser() -> None:
    for name, text in GOOD.items():
        if "levels" not in name:
            assert repr(decode_json(text)) == repr(json.loads(text)), name
    assert decode_json(rb'"x\ud83d"') == "x\ud83d"
    assert decode_json(b"[1e400,-1e400]") == [math.inf, -math.inf]
    assert decode_json(b"[%b]" % (b"9" * 5000)) == [math.inf]


@pytest.mark.parametrize("levels", [PYTHON_LEVELS + 1, MAX_LEVELS])
def test_documents_that_are_too_deep_for_pythons_parser(levels: int) -> None:
    deep = b"[" * levels + rb'"\ud83d",-1e400,1e5' + b"]" * levels
    found = decode_json(deep)
    while len(found) == 1:
        found = found[0]
    assert found == ["\ufffd", -1.7976931348623157e308, 1e5]


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 3000, 100_000])
def test_the_limit_of_levels_is_the_same_for_every_parser(levels: int) -> None:
    """orjson's, Python's own (for the long number), and that for half of a surrogate pair."""
    for inner in (b"1", b"9" * 30, rb'"\ud83d"'):
        with pytest.raises(ValueError, match=r"depth limit exceeded: more than 1,024 levels"):
            decode_json(b"[" * levels + inner + b"]" * levels)


@pytest.mark.parametrize("levels", [1, 20])
@pytest.mark.parametrize(
    "text", [b'"[[[[",%b', b'"\\"[[[[",%b', b'{"a":1},[],[],{},%b', b'%b,"[[[[', b"%b]]]]["]
)
def test_levels_are_counted_outside_of_texts(text: bytes, levels: int) -> None:
    assert is_deeper(text % (b"[" * levels + b"]" * levels), levels - 1)
    assert not is_deeper(text % (b"[" * levels + b"]" * levels), levels)


@pytest.mark.parametrize("levels", [PYTHON_LEVELS + 1, 3000])
def test_a_parsed_document_has_a_limit_of_levels(levels: int) -> None:
    parse_json("[" * PYTHON_LEVELS + "]" * PYTHON_LEVELS)
    with pytest.raises(ValueError, match="depth limit exceeded: more than 750 levels"):
        parse_json("[" * levels + "]" * levels)


def test_parts_are_replaced_and_nothing_else() -> None:
    def read(text: bytes) -> Any:
        return parse_json_text(text, b"{}")

    assert read(rb'["a\ud83db\\ud83d\\\ude00","\ud83d\ude00"]') == [
        "a\ufffdb\\ud83d\\\ufffd",
        "\U0001f600",
    ]
    assert read(rb'{"a":-1e400,"1e400":[1e400,1e308],"b":"-1e400"}') == {
        "a": {},
        "1e400": [{}, 1e308],
        "b": "-1e400",
    }


PARTS = ["1e400", "-", "-1e400", "0", "1", ".5", "e5", "[", "]", ",", " ", '"', "\\", "\\ud83d",
         "\\ude00", '"a"', ":", "{", "}", "x", "\\u0041", '"\\ud83d"']  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
@example("--1e400")
@example("01e400")
@example("[1e400-1e400]")
def test_nothing_becomes_json_that_is_none(text: str) -> None:
    """Python's parser decides, which accepts these parts."""
    try:
        json.loads(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            check_json_text(text.encode())
    else:
        check_json_text(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        rb'"' + rb"\"" * 100_000,
        b"[" + b'"' * 300_001,
        rb'"\ud83d' + b"\\" * 300_001,
        b"1" * 300_000 + b"e",
        b'"\\ud83d"' + b"-" * 300_000,
        b"[" + b"1e400," * 50_000,
    ],
)
def test_the_time_is_linear(text: bytes) -> None:
    started = time.thread_time()
    with pytest.raises(ValueError, match="not JSON"):
        check_json_text(text)
    assert time.thread_time() - started < 1
