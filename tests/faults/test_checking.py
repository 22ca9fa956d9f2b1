"""The judge is judged: each kind of wrong answer is seen, and what is right passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.checking import Era, Read, check, longest_silence, wrong

# partition 1 of two; a is kept, b comes and goes
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


ERA = Era({1: LOG}, home, frozenset("a"), {1: ACKNOWLEDGED})

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
        replace(MISS, offset=3),  # the delete was applied before the position was told
        replace(MISS, seen=1),
        replace(A, status=503, retry_after=True),
        replace(A, status=0, code="TimeoutError"),
        replace(A, status=502),
        replace(A, staleness=-1.0, offset=3),
    ],
)
def test_right(read: Read) -> None:
    assert wrong(read, [ERA]) == ""


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (replace(A, record=0), "and 2 is the last below 5"),
        (replace(A, body=b'{"key":"a","value":{"n":0}}'), "the body is"),
        (replace(A, body=b'{"key":"b","value":{"n":2}}'), "the body is"),
        (replace(A, body=b'{"key":"a","val'), "no JSON"),
        (replace(A, offset=6, staleness=5.0), "and 5 is the last below 6"),
        (replace(A, offset=3, record=3, staleness=7.5), "record 3 has no value"),
        (replace(A, record=-1), "and 2 is the last"),
        (replace(A, partition=0), "of partition 0"),
        (replace(A, partition=-1), "no Partition"),
        (replace(A, offset=-1), "no Partition or Offset"),
        (replace(A, floor=6), "went back: 5 after 6"),
        (replace(A, seen=5), "went back from record 5"),
        (replace(A, staleness=4.0), "it was at the end 4.000 s ago, and 5 had been confirmed"),
        (replace(MISS, key="a"), "never deleted"),
        (replace(MISS, offset=7, staleness=0.0), "404 as of 7, and record 6 has a value"),
        (replace(MISS, seen=6), "went back from record 6 of this key to none"),
        (replace(MISS, key="c", seen=0), "to none"),
        (replace(MISS, code="view-not-found"), "a refusal: 404 view-not-found"),
        (replace(A, status=400, code="bad-parameter"), "a refusal: 400"),
        (replace(A, status=503), "503 without Retry-After"),
    ],
)
def test_wrong(read: Read, said: str) -> None:
    assert said in wrong(read, [ERA])


def test_an_answer_of_a_former_topic_is_right_only_for_a_while() -> None:
    former = Era({1: LOG}, home, frozenset("a"), until=20.0)
    anew = Era({1: [(0, "a", b'{"n": 9}')]}, home, since=15.0)
    old = replace(A, sent=16.0, answered=16.1, staleness=-1.0)
    new = replace(old, offset=1, record=0, body=b'{"key":"a","value":{"n":9}}')
    assert wrong(old, [former, anew]) == wrong(new, [former, anew]) == ""
    late = replace(old, sent=21.0, answered=21.1)
    assert "and 0 is the last below 5" in wrong(late, [former, anew])
    early = replace(new, sent=10.0, answered=10.1)
    assert "is b'{\"n\": 0}'" in wrong(early, [former, anew])
    missing = replace(MISS, key="a", offset=0, sent=16.0, answered=16.1, staleness=-1.0)
    assert wrong(missing, [former, anew]) == ""
    # a reader that saw the former one must not expect the same of the new one
    assert wrong(replace(missing, floor=6, seen=5), [former, anew]) == ""
    remembering = replace(missing, sent=21.0, answered=21.1, floor=6)
    assert "went back: 0 after 6" in wrong(remembering, [former, anew])


def test_silence_counts_from_the_beginning_to_the_end_and_by_partition() -> None:
    def at(time: float, partition: int, status: int = 200) -> Read:
        return replace(A, sent=time, answered=time, home=partition, status=status)

    even = [at(t / 10, p) for t in range(1, 10) for p in (0, 1)]
    assert longest_silence(even, 0.0, 1.0)[0] == pytest.approx(0.1)
    # a refusal is no answer; a miss is one
    refused = [at(r.sent, r.home, 503 if 0.25 < r.sent < 0.75 and r.home else 404) for r in even]
    assert longest_silence(refused, 0.0, 1.0) == (pytest.approx(0.6), 1)
    assert longest_silence(even, 0.0, 3.0)[0] == pytest.approx(2.1)
    assert longest_silence(even, -1.0, 1.0)[0] == pytest.approx(1.1)
    assert longest_silence([at(0.5, 0, 0)], 0.0, 1.0) == (1.0, 0)
    # when the load itself was held up, nobody was asked
    held_up = [(0.1, 0.15), (0.4, 0.6), (0.75, 2.0)]
    assert longest_silence(refused, 0.0, 1.0, held_up) == (pytest.approx(0.35), 1)


def test_everything_is_counted() -> None:
    reads = [A, NEWER, replace(A, status=0, code="TimeoutError"), replace(A, record=0)]
    reads.append(replace(A, status=503, code="catching-up", retry_after=True))
    found = check(reads, [ERA], 9.0, 11.0)
    assert (found.requests, found.wrong, found.failed, found.ahead) == (5, 1, 2, 1)
    assert found.failures == {"no answer TimeoutError": 1, "503 catching-up": 1}
    assert found.examples == [
        "1.000 s: a by b1; active: the value of record 0, and 2 is the last below 5"
    ]
