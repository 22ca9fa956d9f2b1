"""Tests of the framing of coalesced point reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.wire.point_batch import (
    ABSENT,
    ALONE,
    MAX_READS,
    KeyAnswers,
    Reads,
    decode_keys,
    decode_reads,
    encode_reads,
    headers_of,
)
from model.records import ENTRY_HEAD_SIZE
from tests.support.point_batch import (
    Answers,
    assert_complete,
    decode_answers,
    encode_answers,
)

NAMES = st.from_regex(r"[a-z-]{1,12}", fullmatch=True)
VALUES = st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=20)
LINES = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(
    lambda headers: "".join(f"{name}: {value}\n" for name, value in headers).encode()
)
KEYS = st.lists(st.binary(max_size=5).map(b"\1".__add__), min_size=1, max_size=4)
DIGESTS = st.from_regex(rb"[0-9a-f]{64}", fullmatch=True)
DIGEST = b"0" * 64
NUMBERS = rb"[a-z0-9]+ [0-9]{1,5} [0-9]{1,5}"
PARTITIONS = st.from_regex(rb"[a-z@0-9]+ [a-z:0-9]+ " + NUMBERS, fullmatch=True)
GROUPS_OF_KEYS = st.tuples(PARTITIONS, KEYS)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[bytes], list[Reads]]:
    """Tokens, and groups."""
    tokens = draw(st.lists(DIGESTS, max_size=3, unique=True))
    groups = []
    for partition, texts in draw(st.lists(GROUPS_OF_KEYS, min_size=1, max_size=6)):
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
def answered(draw: st.DrawFn) -> tuple[list[Reads], Answers]:
    """Groups, and their answers."""
    _, groups = draw(requests())
    keys = [draw(key_answers(len(group.texts))) for group in groups]
    return groups, Answers(draw(st.binary(max_size=20)), keys)


@given(answered())
def test_answers_are_decoded_as_they_were_encoded(of: tuple[list[Reads], Answers]) -> None:
    groups, answers = of
    response = encode_answers(*answers)
    assert decode_answers(response, groups) == answers
    assert decode_keys(response, [len(group.texts) for group in groups]) == answers.keys


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


@given(answered(), st.data())
def test_an_instance_refuses_a_malformed_response(
    of: tuple[list[Reads], Answers], data: st.DataObject
) -> None:
    groups, answers = of
    response = encode_answers(*answers)
    counts = [len(group.texts) for group in groups]
    cut = data.draw(st.integers(0, len(response) - 1))
    for wrong, asked in (
        (response[:cut], counts),
        (response + b"x", counts),
        (response, [*counts, 1]),
        (response, [*counts[:-1], counts[-1] + 1]),
        (b"QTR3" + response[4:], counts),
        (response[:8] + b"\1" + response[9:], counts),
    ):
        with pytest.raises(ValueError, match=r"."):
            decode_keys(wrong, asked)


@given(answered(), st.binary(min_size=1, max_size=8), st.data())
def test_any_bytes_in_a_response_are_decoded_or_refused(
    of: tuple[list[Reads], Answers], junk: bytes, data: st.DataObject
) -> None:
    groups, answers = of
    response = encode_answers(*answers)
    at = data.draw(st.integers(0, len(response) - 1))
    counts = [len(group.texts) for group in groups]
    try:
        decoded = decode_keys(response[:at] + junk + response[at + len(junk) :], counts)
    except ValueError:
        return
    assert [len(sizes) for _, _, _, sizes, _ in decoded] == counts
    for _, _, _, sizes, entries in decoded:
        assert [size for size in sizes if size < ABSENT] == list(map(len, entries))
        assert all(len(entry) >= ENTRY_HEAD_SIZE for entry in entries)


@given(LINES)
def test_lines_are_headers(lines: bytes) -> None:
    assert b"".join(b"%b: %b\n" % header for header in headers_of(lines)) == lines


@pytest.mark.parametrize("lines", [b"name\n", b"a: b", b"name:value\n", b"a: b\n\n", b"\n"])
def test_a_malformed_line_of_a_head_is_refused(lines: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        headers_of(lines)


@given(requests())
def test_groups_are_decoded_as_they_were_encoded(of: tuple[list[bytes], list[Reads]]) -> None:
    assert decode_reads(encode_reads(*of)) == of


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
    [b"/a", b"\n", b"\n\n", b"tokens ", b"tokens %b\n" % DIGEST, b",", DIGEST, b"\x01k",
     b"\x00k", b"\x02", b" ", b"-1",
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
        (b"/orders/a", "no lengths"),
        (b"tokens:%b\n/orders/a" % DIGEST, "no lengths"),
        (b"paths 1 0\n/orders/a", "no lengths"),
        (b"tokens " + b"," * MAX_READS + b"\nlengths 1", "more than 1024 tokens"),
        (b"tokens %b\n" % DIGEST * 2 + b"lengths 1", "no lengths"),
        (b"tokens \nlengths 1", "not the digests of tokens"),
        (b"tokens x\nlengths 1", "not the digests of tokens"),
        (b"tokens %b,\nlengths 1" % DIGEST, "not the digests of tokens"),
        (b"tokens %b0\nlengths 1" % DIGEST, "not the digests of tokens"),
        (b"tokens %b" % DIGEST, "no reads"),
        (b"tokens %b\n" % DIGEST, "no reads"),
        (b"partition v s m 2 0 1 0\n\n\x01a", "no lengths"),
        (b"lengths 2", "0x01"),
        (b"lengths 2\n\n\x01a", "more keys than the groups have"),
        (b"lengths 2\npartition 1 0\n\n\x01a", "not the first one of a group"),
        (b"lengths 2\npartition v s m 2 0 -1 0\n\n\x01a", "not the first one of a group"),
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
        *(
            (b"lengths 2\npartition v s m 2 0 1 %b\n\n\x01a" % tokens, "one known token")
            for tokens in (b"1", b"-1", b"x", b"", b"0,", b"0,1", b"9" * 9999)
        ),
        (b"tokens %b\nlengths 2\npartition v s m 2 0 2 2\n\n\x01a\x01b" % DIGEST, "known token"),
        (b"lengths 1\n%b\n\n" % GROUP + b"\x01" * (MAX_READS + 1), "more than 1024 reads"),
        (
            b"lengths 1%b\n%b\n\n" % (b",1" * MAX_READS, GROUP) + b"\x01" * (MAX_READS + 1),
            "more than 1024 reads",
        ),
    ],
)
def test_malformed_requests_are_refused(body: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_reads(body)
