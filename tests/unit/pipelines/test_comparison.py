"""The comparison finds each kind of difference, and none between equal topics."""

from __future__ import annotations

import pytest

from tests.pipelines.comparison import Table, compacted, differences, went_back
from tests.support.topics import Log

WANTED: Table = {(0, b"a"): b"1", (0, b"b"): b"2", (1, b"c"): b"3"}


def log(*records: tuple[bytes, bytes | None]) -> Log:
    return Log([(offset, 0, key, value) for offset, (key, value) in enumerate(records)])


def test_compaction_keeps_the_last_value_of_each_key_in_each_partition() -> None:
    first = log((b"a", b"0"), (b"gone", b"1"), (b"a", b"1"), (b"gone", None), (b"b", b"2"))
    second = log((b"never", None), (b"c", None), (b"c", b"3"))
    assert compacted([first, second]) == WANTED


def test_equal_topics_have_no_differences() -> None:
    assert not differences(dict(reversed(WANTED.items())), WANTED)
    assert str(differences({}, {})) == "equal"


@pytest.mark.parametrize(
    ("found", "counts", "example"),
    [
        ({(0, b"a"): b"1", (0, b"b"): b"2"}, (1, 0, 0, 0), "b'c' of partition 1 is missing"),
        ({**WANTED, (2, b"d"): b""}, (0, 1, 0, 0), "b'd' of partition 2 is extra"),
        ({**WANTED, (0, b"b"): b"2 "}, (0, 0, 1, 0), "b'b' is b'2 ', not b'2'"),
        ({**WANTED, (0, b"b"): b""}, (0, 0, 1, 0), "b'b' is b'', not b'2'"),
        # a stale copy in the partition that the key had before
        ({**WANTED, (1, b"a"): b"1"}, (0, 1, 0, 0), "b'a' of partition 1 is extra"),
        ({}, (3, 0, 0, 0), "b'a' of partition 0 is missing"),
    ],
)
def test_each_kind_of_difference_is_found(
    found: Table, counts: tuple[int, ...], example: str
) -> None:
    result = differences(found, WANTED)
    assert (result.missing, result.extra, result.changed, result.misplaced) == counts
    assert result
    assert example in str(result)


def test_a_record_in_the_wrong_partition_is_misplaced() -> None:
    moved = {(2 if key == b"c" else partition, key): v for (partition, key), v in WANTED.items()}
    result = differences(moved, WANTED)
    assert (result.missing, result.extra, result.changed, result.misplaced) == (0, 0, 0, 1)
    assert str(result) == "1 misplaced: b'c' is in partition 2, not 1"


def test_only_some_examples_are_kept() -> None:
    result = differences({}, {(0, bytes([number])): b"" for number in range(100)})
    assert result.missing == 100
    assert len(result.examples) == 5


def test_a_value_that_goes_back_is_found_though_a_later_one_hides_it() -> None:
    def rank(value: bytes) -> object:
        return int(value)

    again = log((b"a", b"1"), (b"b", b"5"), (b"a", b"2"), (b"a", b"2"), (b"b", b"6"))
    assert went_back([again], rank) == []
    stale = log((b"a", b"1"), (b"a", b"2"), (b"a", b"1"), (b"a", b"3"))
    assert went_back([log(), stale], rank) == ["b'a' at 1:2: 1 after 2"]
    # 10 is after 9 as a number
    assert went_back([log((b"a", b"9"), (b"a", b"10"))], rank) == []
