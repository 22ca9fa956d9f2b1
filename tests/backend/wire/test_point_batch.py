"""Tests of the framing of coalesced point reads."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.wire.point_batch import (
    ASK_ALONE,
    Head,
    Item,
    ReadsOfToken,
    decode_reads,
    encode_answers,
)
from tests.support.point_batch import decode_answers, encode_paths, encode_reads

NAMES = st.from_regex(r"[a-z-]{1,12}", fullmatch=True)
VALUES = st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=20)
LINES = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda headers: "".join(f"{name}: {value}\n" for name, value in headers).encode()
)
HEADS = st.lists(st.tuples(st.integers(100, 599), LINES), max_size=4)


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, list[Head], list[Item]]:
    heads = draw(HEADS)
    complete = st.tuples(
        st.integers(0, max(0, len(heads) - 1)), st.binary(max_size=9), st.binary(max_size=50)
    )
    items = draw(
        st.lists(st.just(ASK_ALONE) | complete if heads else st.just(ASK_ALONE), max_size=9)
    )
    return draw(st.binary(max_size=20)), heads, items


@given(answers())
def test_answers_are_decoded_as_they_were_encoded(
    framed: tuple[bytes, list[Head], list[Item]],
) -> None:
    assert decode_answers(encode_answers(*framed)) == framed


@given(answers(), st.data())
def test_a_truncated_or_longer_response_is_refused(
    framed: tuple[bytes, list[Head], list[Item]], data: st.DataObject
) -> None:
    answer = encode_answers(*framed)
    with pytest.raises(ValueError, match=r"."):
        decode_answers(answer[: data.draw(st.integers(0, len(answer) - 1))])
    with pytest.raises(ValueError, match=r"truncated|unexpected|unpack"):
        decode_answers(answer + b"x")


@given(st.lists(st.from_regex(rb"/[!-~]*", fullmatch=True), min_size=1))
def test_paths_are_decoded_as_they_were_encoded(paths: list[bytes]) -> None:
    assert decode_reads(encode_paths(paths)) == [(None, paths)]


PATHS = st.lists(st.from_regex(rb"/[!-~]*", fullmatch=True), min_size=1, max_size=4)
TOKENS = st.from_regex(rb"[A-Za-z0-9._~+/-]+=*", fullmatch=True)


@given(
    st.lists(st.tuples(st.none(), PATHS), max_size=1),
    st.lists(st.tuples(TOKENS, PATHS), max_size=4),
)
@example([], [])
def test_tokens_are_decoded_as_they_were_encoded(
    without: list[ReadsOfToken], others: list[ReadsOfToken]
) -> None:
    groups = [*without, *others] or [(None, [b""])]
    assert decode_reads(encode_reads(groups)) == groups


PIECES = st.sampled_from([b"/a", b"\n", b"\n\n", b"token:", b"\ntoken:", b"token", b":", b" "])


@given(st.lists(PIECES).map(b"".join))
def test_each_line_is_a_token_or_a_read(body: bytes) -> None:
    groups = decode_reads(body)
    assert encode_reads(groups) == body
    assert all(token is not None for token, _ in groups[1:])
    assert not any(path.startswith(b"token:") for _, paths in groups for path in paths)
