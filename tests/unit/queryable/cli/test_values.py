"""Keys and values as people type them."""

from __future__ import annotations

import pytest

from queryable import BadUse
from queryable.cli.output import write_line
from queryable.cli.values import cell_text, parse_value
from queryable.client.protocol.formats import Format, format_of

JSON, CUSTOM = format_of("json"), format_of("some.module:Class")


@pytest.mark.parametrize("format_", [JSON, format_of("avro"), CUSTOM])
@pytest.mark.parametrize(
    "typed",
    ["1.0", "1e2", "-0", "1.10", "0.1000000000000000055511", str(10**300), '{"a":[1.0,1E+2],"a":2}',
     "null"],
)  # fmt: skip
def test_json_is_sent_as_it_was_typed(typed: str, format_: Format) -> None:
    value = parse_value(typed, format_, "VALUE")
    assert format_.json_bytes(value) == typed.encode()
    if format_ is JSON:
        assert format_.record_bytes(value) == typed.encode()
        assert format_.path_segment(value)[0]


def test_json_is_sent_without_spaces_between_its_parts() -> None:
    """As the client writes it: JSON keys are compared by their bytes."""
    value = parse_value(' { "a b" : [ 1.0 ,\n"c \\" \\u00e9" ] } ', JSON, "KEY")
    assert JSON.json_bytes(value) == b'{"a b":[1.0,"c \\" \\u00e9"]}'


@pytest.mark.parametrize("typed", ["", "{", "NaN", "[Infinity]", "1.", "01", "'a'", "[" * 5000])
def test_what_is_no_json_is_refused(typed: str) -> None:
    with pytest.raises(BadUse, match="is not a valid json"):
        parse_value(typed, JSON, "VALUE")


def test_text_of_a_custom_format_needs_no_quotes() -> None:
    for typed, sent in (("tea", b'"tea"'), ('"tea"', b'"tea"'), ("1.0", b"1.0")):
        assert CUSTOM.json_bytes(parse_value(typed, CUSTOM, "KEY")) == sent


def test_a_typed_key_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    key = parse_value('{"id":7}', JSON, "KEY")
    write_line({"key": key, "value": 1})
    assert capsys.readouterr().out == '{"key":{"id":7},"value":1}\n'
    assert cell_text(key) == '{"id": 7}'
