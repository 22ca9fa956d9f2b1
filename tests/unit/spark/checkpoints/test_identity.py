"""``view.json``: its content, and what differs between two of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spark.checkpoints.identity import ViewIdentity, edits, from_json, to_json

IDENTITY = ViewIdentity(
    view="words",
    topic="words",
    sources=("texts", "more"),
    revision=1,
    state_store="RocksDBStateStoreProvider",
    state_partitions=2,
    written=(("code", "0026a0c6"),),
)
TABLE = (("from", '"texts"'), ("key", '"word"'), ("count", "true"))


@pytest.mark.parametrize("written", [IDENTITY.written, TABLE, ()])
def test_the_file_has_all_fields(written: tuple[tuple[str, str], ...]) -> None:
    identity = replace(IDENTITY, written=written)
    assert from_json(to_json(identity)) == identity


def test_a_file_of_an_earlier_release_has_no_description_that_can_be_compared() -> None:
    before = {
        "format": 1,
        **{name: json.loads(to_json(IDENTITY))[name] for name in ("view", "topic", "sources")},
        "state_version": 3,
        "state_store": IDENTITY.state_store,
        "state_partitions": 2,
        "rule": {"plan": "Project", "functions": [], "code": "c", "spark": "4", "release": "0"},
        "more_of_rule": {"literals": []},
    }
    assert from_json(json.dumps(before)) == replace(IDENTITY, revision=3, written=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[]", "TypeError"),
        ("{}", "KeyError: 'format'"),
        (json.dumps({"format": 3}), "it has format 3, and this release reads up to 2"),
        (json.dumps({"format": 1}), "KeyError: 'state_version'"),
        (json.dumps({"format": 2, "view": "words"}), "KeyError: 'topic'"),
        (to_json(IDENTITY).replace('"0026a0c6"', '"0026a0c6", 1'), "too many values to unpack"),
    ],
)
def test_another_content_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(text)


def test_edits_are_named() -> None:
    assert edits(TABLE, tuple(reversed(TABLE))) == []
    assert edits((("code", "a"),), (("code", "b"),)) == ["its code was edited"]
    now = (("from", f'"{"x" * 500}"'), ("key", '"lower(word)"'), ("filter", "true"))
    count, filter_, source, key = edits(TABLE, now)
    assert (count, filter_) == ("count is gone", "filter is new")
    assert source.startswith('from is "xxx')
    assert source.endswith('x… instead of "texts"')
    assert len(source) < 200
    assert key == 'key is "lower(word)" instead of "word"'


def test_a_table_instead_of_a_file_is_an_edit() -> None:
    assert "code is gone" in edits((("code", "a"),), TABLE)
