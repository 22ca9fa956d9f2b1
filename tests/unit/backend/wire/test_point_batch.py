"""Tests of the framing of coalesced point reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backend.wire.point_batch import (
    ABSENT,
    ALONE,
    ASK_ALONE,
    MAX_READS,
    Head,
    Item,
    KeyAnswers,
    Reads,
    decode_paths,
    decode_reads,
    encode_reads,
    headers_of,
    headers_of_heads,
)
from tests.support.point_batch import (
    Answers,
    assert_complete,
    decode_answers,
    encode_answers,
    encode_lines,
    encode_paths,
)

NAMES = st.from_regex(r"[a-z-]{1,12}", fullmatch=True)
VALUES = st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=20)
LINES = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda headers: "".join(f"{name}: {value}\n" for name, value in headers).encode()
)
HEADS = st.lists(st.tuples(st.integers(100, 599), LINES), max_size=4)

PATHS = st.lists(st.from_regex(rb"/[!-~]*", fullmatch=True), min_size=1, max_size=4)
KEYS = st.lists(st.binary(max_size=5).map(b"\1".__add__), min_size=1, max_size=4)
TEXT_KEYS = st.lists(st.from_regex(rb"\x01[!-~]*", fullmatch=True), min_size=1, max_size=4)
DIGESTS = st.from_regex(rb"[0-9a-f]{64}", fullmatch=True)
DIGEST = b"0" * 64
NUMBERS = rb"[a-z0-9]+ [0-9]{1,5} [0-9]{1,5}"
PARTITIONS = st.from_regex(rb"[a-z@0-9]+ [a-z:0-9]+ " + NUMBERS, fullmatch=True)
GROUPS_OF_PATHS = st.tuples(st.none(), PATHS)
GROUPS_OF_KEYS = st.tuples(PARTITIONS, KEYS)
# of nginx of an earlier release
PARTITIONS_IN_LINES = st.from_regex(rb"[a-z@0-9]+ " + NUMBERS, fullmatch=True)
GROUPS_IN_LINES = GROUPS_OF_PATHS | st.tuples(PARTITIONS_IN_LINES, TEXT_KEYS)


@st.composite
def requests(
    draw: st.DrawFn, of: st.SearchStrategy[Any] | None = None
) -> tuple[list[bytes], list[Reads]]:
    """Tokens, and groups."""
    if of is None:
        of = draw(st.sampled_from([GROUPS_OF_KEYS, GROUPS_OF_PATHS]))
    tokens = draw(st.lists(DIGESTS, max_size=3, unique=True))
    groups = []
    for partition, texts in draw(st.lists(of, min_size=bool(tokens), max_size=6)):
        count = draw(st.sampled_from([1, len(texts)]))
        numbers = st.lists(st.integers(0, len(tokens)), min_size=count, max_size=count)
        groups.append(Reads(partition, texts, draw(numbers)))
    return tokens, groups


@st.composite
def key_answers(draw: st.DrawFn, count: int) -> KeyAnswers:
    entries = draw(
        st.lists(st.none() | st.binary(min_size=16, max_size=60), min_size=count, max_size=count)
    )
    without = draw(st.sampled_from([ABSENT, ALONE]))
    sizes = [without if entry is None else len(entry) for entry in entries]
    texts = [draw(st.binary(max_size=20)) for _ in range(3)]
    return (*texts, sizes, [entry for entry in entries if entry is not None])


@st.composite
def items(draw: st.DrawFn, count: int) -> tuple[list[Head], list[Item]]:
    heads = draw(HEADS)
    complete = st.tuples(
        st.integers(0, max(0, len(heads) - 1)), st.binary(max_size=9), st.binary(max_size=50)
    )
    one = st.just(ASK_ALONE) | complete if heads else st.just(ASK_ALONE)
    return heads, draw(st.lists(one, min_size=count, max_size=count))


@st.composite
def answered(draw: st.DrawFn) -> tuple[list[Reads], Answers]:
    """Groups, and their answers."""
    _, groups = draw(requests(GROUPS_IN_LINES))
    keys = [draw(key_answers(len(group.texts))) for group in groups if group.partition is not None]
    paths = sum(len(group.texts) for group in groups if group.partition is None)
    heads, of_paths = draw(items(paths))
    return groups, Answers(draw(st.binary(max_size=20)), keys, heads, of_paths)


@given(answered())
def test_answers_are_decoded_as_they_were_encoded(of: tuple[list[Reads], Answers]) -> None:
    groups, answers = of
    assert decode_answers(encode_answers(*answers), groups) == answers


@given(answered(), st.data())
def test_a_truncated_or_longer_response_is_refused(
    of: tuple[list[Reads], Answers], data: st.DataObject
) -> None:
    groups, answers = of
    response = encode_answers(*answers)
    with pytest.raises(ValueError, match=r"."):
        decode_answers(response[: data.draw(st.integers(0, len(response) - 1))], groups)
    with pytest.raises(ValueError, match=r"truncated|unexpected|unpack"):
        decode_answers(response + b"x", groups)


@st.composite
def of_paths(draw: st.DrawFn) -> tuple[bytes, list[Head], list[Item]]:
    """A response to paths alone."""
    heads, answers = draw(items(draw(st.integers(0, 5))))
    return encode_answers(draw(st.binary(max_size=20)), [], heads, answers), heads, answers


@given(of_paths())
def test_answers_to_paths_are_decoded_as_they_were_encoded(
    of: tuple[bytes, list[Head], list[Item]],
) -> None:
    response, heads, answers = of
    assert decode_paths(response, len(answers)) == (heads, answers)
    for _, lines in heads:
        assert b"".join(b"%b: %b\n" % header for header in headers_of(lines)) == lines


@given(of_paths(), st.lists(st.sampled_from([b"", b"1", b"1400000000000", b"x: y"])))
def test_heads_that_differ_in_the_timestamp_of_a_record(
    of: tuple[bytes, list[Head], list[Item]], times: list[bytes]
) -> None:
    _, heads, _ = of
    dated = [(200, lines + b"record-timestamp: %b\n" % t) for t in times for _, lines in heads]
    for found in (heads, dated, heads + dated):
        expected = [(status, headers_of(lines)) for status, lines in found]
        assert headers_of_heads(found) == expected


@pytest.mark.parametrize("time", [b"", b"1\nname\n", b"1"])
def test_a_malformed_timestamp_in_a_head_is_refused(time: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        headers_of_heads([(200, b"a: b\nrecord-timestamp: %b" % time)])


@given(of_paths(), st.data())
def test_a_malformed_response_to_paths_is_refused(
    of: tuple[bytes, list[Head], list[Item]], data: st.DataObject
) -> None:
    response, _, answers = of
    cut = data.draw(st.integers(0, len(response) - 1))
    for wrong, count in (
        (response[:cut], len(answers)),
        (response + b"x", len(answers)),
        (response, len(answers) + 1),
        (b"QTR3" + response[4:], len(answers)),
        (response[:4] + b"\1" + response[5:], len(answers)),
    ):
        with pytest.raises(ValueError, match=r"."):
            decode_paths(wrong, count)


@given(of_paths(), st.binary(min_size=1, max_size=8), st.data())
def test_any_bytes_in_a_response_are_decoded_or_refused(
    of: tuple[bytes, list[Head], list[Item]], junk: bytes, data: st.DataObject
) -> None:
    response, _, answers = of
    at = data.draw(st.integers(0, len(response) - 1))
    changed = response[:at] + junk + response[at + len(junk) :]
    try:
        heads, found = decode_paths(changed, len(answers))
    except ValueError:
        return
    assert len(found) == len(answers)
    assert all(head == ALONE or head < len(heads) for head, _, _ in found)


@pytest.mark.parametrize("lines", [b"name\n", b"a: b", b"name:value\n", b"a: b\n\n", b"\n"])
def test_a_malformed_line_of_a_head_is_refused(lines: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        headers_of(lines)


@given(PATHS)
def test_paths_are_decoded_as_they_were_encoded(paths: list[bytes]) -> None:
    assert decode_reads(encode_paths(paths)) == ([], [Reads(None, paths, [0])])


@given(requests())
@example(([], []))
def test_groups_are_decoded_as_they_were_encoded(of: tuple[list[bytes], list[Reads]]) -> None:
    tokens, groups = of
    if groups:
        assert decode_reads(encode_reads(tokens, groups)) == of


@given(requests(GROUPS_IN_LINES))
def test_requests_of_an_earlier_release_are_decoded(of: tuple[list[bytes], list[Reads]]) -> None:
    if of[1]:
        assert decode_reads(encode_lines(*of)) == of


def test_a_request_has_the_lengths_of_its_keys() -> None:
    """As proxy/reads/point_batch.lua writes it: see point_batch_spec.lua."""
    groups = [
        Reads(b"v int32 murmur2 9 4", [b"\1\0\0\0\n", b"\1\n\n\n\n"], [1]),
        Reads(b"w string murmur2 2 0", [b"\1a", b"\1b:c", b"\1d"], [1, 0, 1]),
    ]
    body = (
        b"tokens %b\nlengths 5,5,2,4,2\npartition v int32 murmur2 9 4 2 1\n"
        b"partition w string murmur2 2 0 3 1,0,1\n\n"
        b"\1\0\0\0\n\1\n\n\n\n\1a\1b:c\1d" % DIGEST
    )
    assert encode_reads([DIGEST], groups) == body
    assert decode_reads(body) == ([DIGEST], groups)


@given(requests())
def test_each_read_has_its_token(of: tuple[list[bytes], list[Reads]]) -> None:
    for group in of[1]:
        numbers = group.tokens if len(group.tokens) > 1 else list(group.tokens) * len(group.texts)
        assert list(group.with_tokens()) == list(zip(group.texts, numbers, strict=True))


PIECES = st.sampled_from(
    [b"/a", b"\n", b"\n\n", b"tokens ", b"tokens %b\n" % DIGEST, b",", DIGEST, b"paths 1 0",
     b"paths 2 0", b"paths 2 0,1", b"keys a b 1 0 1 0", b"\x01k", b"\x00k", b"\x02", b" ", b"-1",
     b"9", b",1", b",0", b"lengths ", b"2", b"2,3", b"\npartition v string m 1 0 ", b"1 0",
     b"2 0", b"2 0,1", b"\x01ab"]
)  # fmt: skip


@given(st.lists(PIECES).map(b"".join))
def test_a_request_is_decoded_completely_or_refused(body: bytes) -> None:
    try:
        tokens, groups = decode_reads(body)
    except ValueError:
        return
    assert_complete(body, tokens, groups)


GROUP = b"partition v s m 2 0 1 0"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"/orders/a", "not the first one of a group"),
        (b"tokens:%b\n/orders/a" % DIGEST, "not the first one of a group"),
        (b"paths\n/a", "not the first one of a group"),
        (b"paths 1\n/a", "not the first one of a group"),
        (b"paths -1 0\n/a", "not the first one of a group"),
        (b"lines 1 0\n/a", "not the first one of a group"),
        (b"paths v 1 0\n/a", "not the first one of a group"),
        (b"paths 1 0\n/a\ntokens %b" % DIGEST, "not the first one of a group"),
        (b"keys 1 0\n\x01a", "not the first one of a group"),
        (b"paths 2 0\n/a", "fewer than"),
        (b"paths 0 0", "has no reads"),
        (b"paths 1 1\n/a", "one known token"),
        (b"paths 1 -1\n/a", "one known token"),
        (b"paths 1 x\n/a", "one known token"),
        (b"paths 1 \n/a", "one known token"),
        (b"tokens %b\npaths 2 2\n/a\n/b" % DIGEST, "one known token"),
        (b"tokens %b\npaths 2 0,\n/a\n/b" % DIGEST, "one known token"),
        (b"tokens %b\npaths 3 0,1\n/a\n/b\n/c" % DIGEST, "one known token"),
        (b"paths 1 " + b"9" * 9999 + b"\n/a", "one known token"),
        (b"keys v murmur2 2 0 1 0\n\x00position", "0x01"),
        (b"keys v murmur2 2 0 2 0\n\x01a\n\x02b", "0x01"),
        (b"keys v murmur2 2 0 2 0\n\x01a\n", "0x01"),
        (b"tokens " + b"," * MAX_READS + b"\npaths 1 0\n/a", "more than 1024 tokens"),
        (b"tokens %b\n" % DIGEST * 2 + b"paths 1 0\n/a", "not the first one of a group"),
        (b"tokens \npaths 1 0\n/a", "not the digests of tokens"),
        (b"tokens x\npaths 1 0\n/a", "not the digests of tokens"),
        (b"tokens %b,\npaths 1 0\n/a" % DIGEST, "not the digests of tokens"),
        (b"tokens %b0\npaths 1 0\n/a" % DIGEST, "not the digests of tokens"),
        (b"tokens %b" % DIGEST, "no reads"),
        (b"tokens %b\n" % DIGEST, "no reads"),
        (b"partition v s m 2 0 1 0\n\n\x01a", "not the first one of a group"),
        (b"lengths 2", "0x01"),
        (b"lengths 2\n\n\x01a", "more keys than the groups have"),
        (b"lengths 2\npartition 1 0\n\n\x01a", "not the first one of a group"),
        (b"lengths 2\npartition v s m 2 0 -1 0\n\n\x01a", "not the first one of a group"),
        (b"lengths 2\npaths 1 0\n/a\n\n\x01a", "not the first one of a group"),
        (b"lengths 2\nkeys v m 2 0 1 0\n\n\x01a", "not the first one of a group"),
        (b"lengths 2\n%b\n\n\x01a\n" % GROUP, "do not have these lengths"),
        (b"lengths 2\n%b\n\n\x01ab" % GROUP, "do not have these lengths"),
        (b"lengths 3\n%b\n\n\x01a" % GROUP, "do not have these lengths"),
        (b"lengths 2,9\n%b\n\n\x01a\x01a" % GROUP, "do not have these lengths"),
        (b"lengths 1,\n%b\n\n\x01\x01" % GROUP, "no lengths"),
        (b"lengths ,1\n%b\n\n\x01\x01" % GROUP, "no lengths"),
        (b"lengths 1,,1\n%b\n\n\x01\x01\x01" % GROUP, "no lengths"),
        (b"lengths ,\n%b\n\n\x01\x01" % GROUP, "no lengths"),
        (b"lengths 1s1\n%b\n\n\x01\x01" % GROUP, "more keys|no lengths"),
        (b"lengths 9%b\n%b\n\n\x01" % (b"9" * 99, GROUP), "do not have these lengths"),
        (b"lengths 1\n%b\n\n\x01\x01" % GROUP, "more keys than the groups have"),
        (b"lengths 3\nn%b\n\n\x01aa" % GROUP, "not the first one of a group"),
        (b"lengths 1\n%b\n%b\n\n\x01" % (GROUP, GROUP), "no keys, or fewer"),
        (b"lengths 1\npartition v s m 2 0 0 0\n\n\x01", "no keys, or fewer"),
        (b"lengths 1\n%b\n\n" % GROUP, "do not have these|0x01"),
        (b"lengths 0\n%b\n\n" % GROUP, "0x01"),
        (b"lengths 0\n%b\n\n\x01a" % GROUP, "do not have these lengths"),
        (b"lengths 2,0\n%b\n\n\x01a" % GROUP, "0x01"),
        (b"lengths 9\n%b\n\n\x00position" % GROUP, "0x01"),
        (b"lengths 2\n%b\n\n\x02a" % GROUP, "0x01"),
        (b"lengths 3,-1\n%b\n\n\x01a" % GROUP, "no lengths"),
        (b"lengths \n%b\n\n\x01a" % GROUP, "no lengths"),
        (b"lengths +2\n%b\n\n\x01a" % GROUP, "no lengths"),
        (b"lengths 2x\n%b\n\n\x01a" % GROUP, "no lengths"),
        (b"lengths 1,x\n%b\n\n\x01a" % GROUP, "no lengths"),
        (b"lengths 2\npartition v s m 2 0 1 1\n\n\x01a", "one known token"),
        (b"lengths 1\n%b\n\n" % GROUP + b"\x01" * (MAX_READS + 1), "more than 1024 reads"),
        (
            b"lengths 1%b\n%b\n\n" % (b",1" * MAX_READS, GROUP) + b"\x01" * (MAX_READS + 1),
            "more than 1024 reads",
        ),
        (b"paths %d 0" % MAX_READS + b"\n/a" * MAX_READS, "more than 1024 lines"),
    ],
)
def test_malformed_requests_are_refused(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_reads(body)
