"""The checks themselves: each kind of wrong answer is detected, and right answers pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.checking import Read, TopicHistory, check, longest_silence, wrong

# partition 1 of two; a is kept, b is written and deleted
LOG = [
    (0, "a", b'{"n": 0}'),
    (1, "b", b'{"n": 1}'),
    (2, "a", b'{"n": 2}'),
    (4, "b", None),  # 3 is a marker
    (5, "a", b'{"n": 5}'),
    (6, "b", b'{"n": 6}'),
]
ACKNOWLEDGED = [(float(offset), offset) for offset, _, _ in LOG]


def home(key: str) -> int:
    return 1


HISTORY = TopicHistory({1: LOG}, home, frozenset("a"), {1: ACKNOWLEDGED})

A = Read(
    sent=10.0,
    answered=10.1,
    key="a",
    home=1,
    status=200,
    body=b'{"key":"a","value":{"n":2}}',
    partition=1,
    offset=5,
    record=2,
    staleness=6.0,
    served_by="b1; active",
)
MISS = replace(A, key="b", status=404, code="key-not-found", body=b"", record=-1, offset=5)
NEWER = replace(A, record=5, body=b'{"key":"a","value":{"n":5}}')


@pytest.mark.parametrize(
    "read",
    [
        A,
        replace(A, offset=4),
        NEWER,
        replace(NEWER, offset=7, staleness=0.0),
        replace(NEWER, seen=5, floor=5),
        MISS,
        replace(MISS, offset=7, key="c", staleness=0.0),
        replace(MISS, offset=1, staleness=9.5),
        replace(MISS, offset=3),  # the delete was applied before the position was read
        replace(MISS, seen=1),
        replace(A, status=503, retry_after=True),
        replace(A, status=0, code="TimeoutError"),
        replace(A, status=502),
        replace(A, staleness=-1.0, offset=3),
    ],
)
def test_right(read: Read) -> None:
    assert wrong(read, [HISTORY]) == ""


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (replace(A, record=0), "but 2 is the last below 5"),
        (replace(A, body=b'{"key":"a","value":{"n":0}}'), "the body is"),
        (replace(A, body=b'{"key":"b","value":{"n":2}}'), "the body is"),
        (replace(A, body=b'{"key":"a","val'), "not JSON"),
        (replace(A, offset=6, staleness=5.0), "but 5 is the last below 6"),
        (replace(A, offset=3, record=3, staleness=7.5), "record 3 has no value"),
        (replace(A, record=-1), "but 2 is the last"),
        (replace(A, partition=0), "of partition 0"),
        (replace(A, partition=-1), "no Partition"),
        (replace(A, offset=-1), "no Partition or Offset"),
        (replace(A, floor=6), "went back: 5 after 6"),
        (replace(A, seen=5), "went back from record 5"),
        (replace(A, staleness=4.0), "it was caught up 4.000 s ago, but 5 had been confirmed"),
        (replace(MISS, key="a"), "never deleted"),
        (replace(MISS, offset=7, staleness=0.0), "404 as of 7, but record 6 has a value"),
        (replace(MISS, seen=6), "went back from record 6 of this key to none"),
        (replace(MISS, key="c", seen=0), "to none"),
        (replace(MISS, code="view-not-found"), "an unexpected error: 404 view-not-found"),
        (replace(A, status=400, code="bad-parameter"), "an unexpected error: 400"),
        (replace(A, status=503), "503 without Retry-After"),
    ],
)
def test_wrong(read: Read, error: str) -> None:
    assert error in wrong(read, [HISTORY])


def test_an_answer_of_a_deleted_topic_is_right_only_for_a_while() -> None:
    deleted = TopicHistory({1: LOG}, home, frozenset("a"), until=20.0)
    current = TopicHistory({1: [(0, "a", b'{"n": 9}')]}, home, since=15.0)
    old = replace(A, sent=16.0, answered=16.1, staleness=-1.0)
    new = replace(old, offset=1, record=0, body=b'{"key":"a","value":{"n":9}}')
    assert wrong(old, [deleted, current]) == wrong(new, [deleted, current]) == ""
    late = replace(old, sent=21.0, answered=21.1)
    assert "but 0 is the last below 5" in wrong(late, [deleted, current])
    early = replace(new, sent=10.0, answered=10.1)
    assert "is b'{\"n\": 0}'" in wrong(early, [deleted, current])
    missing = replace(MISS, key="a", offset=0, sent=16.0, answered=16.1, staleness=-1.0)
    assert wrong(missing, [deleted, current]) == ""
    # a reader of the old topic must not expect its records in the new one
    assert wrong(replace(missing, floor=6, seen=5), [deleted, current]) == ""
    remembering = replace(missing, sent=21.0, answered=21.1, floor=6)
    assert "went back: 0 after 6" in wrong(remembering, [deleted, current])


def test_silence_is_measured_from_begin_to_end_and_per_partition() -> None:
    def at(time: float, partition: int, status: int = 200) -> Read:
        return replace(A, sent=time, answered=time, home=partition, status=status)

    even = [at(t / 10, p) for t in range(1, 10) for p in (0, 1)]
    assert longest_silence(even, 0.0, 1.0)[0] == pytest.approx(0.1)
    # a 503 is not a good answer; a 404 is
    refused = [at(r.sent, r.home, 503 if 0.25 < r.sent < 0.75 and r.home else 404) for r in even]
    assert longest_silence(refused, 0.0, 1.0) == (pytest.approx(0.6), 1)
    assert longest_silence(even, 0.0, 3.0)[0] == pytest.approx(2.1)
    assert longest_silence(even, -1.0, 1.0)[0] == pytest.approx(1.1)
    assert longest_silence([at(0.5, 0, 0)], 0.0, 1.0) == (1.0, 0)
    # while the load itself stalled, nothing was read
    stalls = [(0.1, 0.15), (0.4, 0.6), (0.75, 2.0)]
    assert longest_silence(refused, 0.0, 1.0, stalls) == (pytest.approx(0.35), 1)


def test_requests_failures_and_wrong_answers_are_counted() -> None:
    reads = [A, NEWER, replace(A, status=0, code="TimeoutError"), replace(A, record=0)]
    reads.append(replace(A, status=503, code="catching-up", retry_after=True))
    found = check(reads, [HISTORY], 9.0, 11.0)
    assert (found.requests, found.wrong, found.failed, found.ahead) == (5, 1, 2, 1)
    assert found.failures == {"no answer TimeoutError": 1, "503 catching-up": 1}
    assert found.examples == [
        "1.000 s: a by b1; active: the value of record 0, but 2 is the last below 5"
    ]


BEFORE, NOW = (
    [(0, "a", b'{"n": 1}'), (1, "b", b'{"n": 2}'), (2, "a", None)],
    [(0, "a", b'{"n": 4}')],
)
MOVED = TopicHistory(
    {1: BEFORE, 2: NOW},
    lambda key: 2 if key == "a" else 1,
    acknowledged={1: [(1.0, 0), (2.0, 1), (3.0, 2)], 2: [(4.0, 0)]},
    former=lambda key: 1,
)


@pytest.mark.parametrize(
    ("status", "value", "staleness", "floor", "is_right"),
    [
        (200, 4, 0, -1, True),
        (200, 4, -1, -1, True),
        (200, 3, -1, -1, False),  # no record has it
        (404, None, -1, -1, True),
        (404, None, 8.5, -1, True),  # 1.5 s: when the key had only its first value, or later
        (200, 1, 8.5, -1, True),
        (200, 1, 6.5, -1, False),  # 3.5 s: it was deleted
        (404, None, 6.5, -1, True),
        (404, None, 1, -1, False),  # 9 s: it has a value again
        (200, 1, -1, 1, True),
        (200, 1, -1, 3, False),  # its reader has seen the delete
    ],
)
def test_answers_of_a_key_in_two_partitions(
    status: int, value: int | None, staleness: float, floor: int, is_right: bool
) -> None:
    body = b'{"key": "a", "value": {"n": %d}}' % value if value is not None else b""
    code = "" if status == 200 else "key-not-found"
    read = Read(10.0, 10.1, "a", 1, status, code, body, staleness=staleness, floor=floor)
    assert (wrong(read, [MOVED]) == "") == is_right


def test_a_key_that_has_not_moved_has_a_position() -> None:
    read = Read(10.0, 10.1, "b", 1, 200, "", b'{"key": "b", "value": {"n": 2}}', staleness=0)
    assert wrong(read, [MOVED]) == "no Partition or Offset"
