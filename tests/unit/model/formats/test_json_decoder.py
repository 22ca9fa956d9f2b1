"""JSON is decoded like by Python's own parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.formats.json_decoder import decode_json

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(ANY, st.booleans())
@example([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400], False)
@example({"a": [10**18, 10**19, "1" * 19]}, True)
def test_decodes_like_json_loads(document: Any, is_ascii: bool) -> None:
    text = json.dumps(document, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        expected = json.loads(text)
    except UnicodeDecodeError:
        return
    decoded = decode_json(text)
    assert json.dumps(decoded) == json.dumps(expected)


def test_invalid_json_is_rejected() -> None:
    for text in (b"", b"{", b"[1,]", b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011
            decode_json(text)
