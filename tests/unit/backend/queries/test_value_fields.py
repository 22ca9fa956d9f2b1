"""Values of a whole view are parsed together, with integers of any size."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.rows import documents
from model.rows.documents import Documents
from tests.support.in_process.examples import ORDERS

SCALARS = (
    st.integers() | st.integers(-(10**30), 10**30) | st.text("0123456789-e. ", max_size=30)
    | st.none() | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
VALUES = st.lists(SCALARS | st.dictionaries(st.text("ab", max_size=1), SCALARS, max_size=2))


@given(VALUES)
@example([1, "0" * 20, 10**30, "-" + "1" * 19, {"a": -(10**19)}, 10**400, 2])
@example([10**30, 10**30])
@example(["1" * 19, 9, "1" * 19, -(10**18)])
def test_values_are_parsed_together_as_if_one_by_one(values: list[Any]) -> None:
    texts = [json.dumps(value).encode() for value in values]
    parsed = Documents(ORDERS).parse(texts)
    assert json.dumps(parsed) == json.dumps([json.loads(text) for text in texts])


def test_only_values_with_many_digits_are_parsed_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exactly: list[bytes] = []
    parse_exactly = documents.parse_exactly

    def parse(document: bytes) -> Any:
        exactly.append(document)
        return parse_exactly(document)

    monkeypatch.setattr(documents, "parse_exactly", parse)
    texts = [b'{"n":%d}' % number for number in range(1000)]
    texts[7], texts[500], texts[999] = b'"%b"' % (b"1" * 50), b"-%b" % (b"9" * 19), b"[%d]" % 10**19
    parsed = Documents(ORDERS).parse(texts)
    assert sorted(exactly) == sorted([texts[7], texts[500], texts[999]])
    assert parsed[500] == -(10**19 - 1)
