"""Documents are read as Python's own parser reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queryable.core.documents import document_of

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(ANY, st.booleans())
@example([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400], False)
@example({"a": [10**18, 10**19, "1" * 19]}, True)
def test_each_document_is_what_it_was(document: Any, is_ascii: bool) -> None:
    text = json.dumps(document, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    try:
        wanted = json.loads(text)
    except UnicodeDecodeError:
        return
    read = document_of(text)
    assert json.dumps(read) == json.dumps(wanted)


def test_what_is_no_document_is_refused() -> None:
    for text in (b"", b"{", b"[1,]", b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011
            document_of(text)
