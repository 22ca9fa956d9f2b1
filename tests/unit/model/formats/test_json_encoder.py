"""JSON documents are encoded whatever their depth."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.formats.json_encoder import encode_json, without_recursion

DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)  # fmt: skip


@given(DOCUMENTS, st.booleans())
def test_documents_that_are_too_deep_for_recursion(document: Any, sorted_: bool) -> None:
    """How many levels are too many depends on what has called: both ways give the same."""
    expected = json.dumps(document, sort_keys=sorted_, separators=(",", ":")).encode()
    assert without_recursion(document, sorted_) == expected
    assert json.loads(encode_json(document, sorted_)) == document


@pytest.mark.parametrize("levels", [1, 254, 255, 900, 1000, 1023])
def test_any_number_of_levels(levels: int) -> None:
    text = b'{"b":[%b],"a":%d}' % (b"[" * (levels - 1) + b"]" * (levels - 1), 7)
    assert encode_json(orjson.loads(text)) == text
    assert encode_json(orjson.loads(text), sorted_=True).startswith(b'{"a":7,"b":[')
