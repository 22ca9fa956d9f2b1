"""Tests of windows, sessions and versions against a simple model of dicts and lists."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.queries.history import History, Span
from backend.queries.point import ViewReads
from backend.queries.point_by_kind import WrongStoreReads
from backend.queries.routing import ReadOptions
from model.kinds.registry import KINDS
from model.problems import BadRequest, Gone, Problem
from tests.support.examples import examples
from tests.support.in_process.examples import HISTORIES, view
from tests.support.in_process.fakes import Rec
from tests.support.in_process.instance import Instance
from tests.unit.model.kinds.one_partition import Entry, fed_partition, record

RETENTION = 50
KEYS = ["a", "a\x00", "ab", ""]
TIMES = st.integers(0, 120)


@dataclass
class Model:
    """The entries that Kafka Streams would keep from the same records, applied in offset order."""

    store: str
    retention: int | None
    entries: dict[tuple[str, int, int], Any] = field(default_factory=dict)
    stream_time: int | None = None

    @property
    def horizon(self) -> float:
        if self.retention is None or self.stream_time is None:
            return float("-inf")
        return self.stream_time - self.retention + (self.store != "versioned")

    def apply(self, key: str, first: int, second: int, value: Any) -> None:
        """Apply a record. window: start, sequence; session: end, start; versioned: timestamp, 0."""
        self.stream_time = max(first, first if self.stream_time is None else self.stream_time)
        if first < self.horizon:
            return
        if value is None and self.store != "versioned":
            self.entries.pop((key, first, second), None)
        else:
            self.entries[key, first, second] = value

    def of_key(self, key: str) -> list[tuple[int, int, Any]]:
        return sorted((f, s, v) for (k, f, s), v in self.entries.items() if k == key)

    def windows(self, key: str, first: float, last: float) -> list[Entry]:
        return [
            {"start": start, "end": start + 10, "sequence": sequence, "value": value}
            for start, sequence, value in self.of_key(key)
            if max(first, self.horizon) <= start <= last
        ]

    def sessions(self, key: str, first: float, last: float) -> list[Entry]:
        return [
            {"start": start, "end": end, "value": value}
            for end, start, value in self.of_key(key)
            if max(first, self.horizon) <= end and start <= last
        ]

    def versions(self, key: str, first: float, last: float) -> list[Entry]:
        items: list[Entry] = []
        for version, following in pairwise([*self.of_key(key), None]):
            until = None if following is None else following[0]
            # versions that ended before the horizon are deleted
            known_from = first if until is None else max(first, self.horizon)
            overlaps = known_from <= last and (until is None or until > known_from)
            if overlaps and version[0] <= last and version[2] is not None:
                items.append({"valid_from": version[0], "valid_to": until, "value": version[2]})
        return items


RECORDS = st.lists(
    st.tuples(st.sampled_from(KEYS), TIMES, st.integers(0, 2), st.none() | st.integers(0, 9)),
    min_size=1,
    max_size=25,
)
BOUND = st.none() | TIMES


@pytest.mark.parametrize("retention", [None, RETENTION], ids=["all", "retention"])
@pytest.mark.parametrize("store", HISTORIES)
@given(data=st.data())
@settings(max_examples=examples(25))
def test_every_history_equals_that_of_the_model(
    store: str, retention: int | None, data: st.DataObject
) -> None:
    of = view(store=store, window_size=10 if store == "window" else None, retention=retention)
    model = Model(store, retention)
    with fed_partition(of) as partition:
        for batch in data.draw(st.lists(RECORDS, min_size=1, max_size=3)):
            records = []
            for key, first, second, value in batch:
                if store == "session":
                    second = first - second
                elif store == "versioned":
                    second = 0
                records.append(record(store, partition.offset, key, first, second, value))
                partition.offset += 1
                model.apply(key, first, second, value)
            partition.feed(records)
            if data.draw(st.booleans()):
                partition.clean()
            first, last = data.draw(BOUND), data.draw(BOUND)
            descending, limit = data.draw(st.booleans()), data.draw(st.integers(1, 4))
            for key in KEYS:
                expected = getattr(model, KINDS[store].history or "")(
                    key,
                    float("-inf") if first is None else first,
                    float("inf") if last is None else last,
                )
                span = partial(Span, first, last, descending)
                found = partition.pages(key, span, limit)
                assert found == (expected[::-1] if descending else expected)


def gone(instance: Instance, key: str, options: ReadOptions) -> bool:
    """Whether the answer is 410: the version may have been deleted. Only before the horizon."""
    with suppress(Gone):
        instance.read(key.encode(), options)
        return False
    return True


@given(data=st.data())
@settings(max_examples=examples(40))
def test_a_version_at_a_time_equals_that_of_the_model_or_is_gone(data: st.DataObject) -> None:
    of = view(store="versioned", retention=RETENTION)
    model = Model("versioned", RETENTION)
    with fed_partition(of) as partition:
        for offset, (key, time, _, value) in enumerate(data.draw(RECORDS)):
            partition.feed([record("versioned", offset, key, time, 0, value)])
            model.apply(key, time, 0, value)
        partition.clean()
        for key in KEYS:
            versions = model.versions(key, float("-inf"), float("inf"))
            latest = model.of_key(key)[-1:]
            answer = partition.instance.read(key.encode())
            expected = latest[0][2] if latest else None
            assert answer.status == (404 if expected is None else 200)
            assert expected is None or json.loads(answer.body) == {"key": key, "value": expected}
            for as_of in chain(range(0, 125, 7), [time]):
                then = next(
                    (
                        v
                        for v in versions
                        if v["valid_from"] <= as_of
                        and (v["valid_to"] is None or as_of < v["valid_to"])
                    ),
                    None,
                )
                options = ReadOptions(as_of=as_of)
                ended = then is None or then["valid_to"] is not None
                if as_of < model.horizon and ended and gone(partition.instance, key, options):
                    continue
                answer = partition.instance.read(key.encode(), options)
                assert answer.status == (404 if then is None else 200)
                assert then is None or json.loads(answer.body) == {"key": key, **then}


def test_expired_entries_are_deleted_unless_the_key_has_a_newer_record() -> None:
    of = view(store="key-value", retention=RETENTION)
    with fed_partition(of) as partition:
        partition.feed(
            [
                Rec(n, key, b"%d" % n, n * 20)
                for n, key in enumerate((b"old", b"fed_partition", b"new"))
            ]
        )
        assert partition.instance.read(b"old").status == 200
        partition.feed([Rec(3, b"fed_partition", b"3", 55), Rec(4, b"late", b"5", 4)])
        # one has expired but is not deleted yet, the other was late
        assert partition.instance.read(b"old").status == 404
        assert partition.instance.read(b"late").status == 404
        assert partition.clean() == 2
        assert json.loads(partition.instance.read(b"fed_partition").body)["value"] == 3
        assert json.loads(partition.instance.read(b"new").body)["value"] == 2


def test_a_cursor_is_valid_only_for_its_own_query() -> None:
    with fed_partition(view(store="window", window_size=10)) as partition:
        partition.feed([record("window", n, "a", n * 10, 0, n) for n in range(5)])
        history = History(partition.instance.reads)
        _, page = history.read(b"a", ReadOptions(), Span(limit=2))
        for key, span in (
            (b"b", Span(cursor=page.next)),
            (b"a", Span(first=1, cursor=page.next)),
            (b"a", Span(descending=True, cursor=page.next)),
            (b"a", Span(cursor="AAAA")),
            (b"a", Span(cursor="é")),
        ):
            with pytest.raises(BadRequest) as error:
                history.read(key, ReadOptions(), span)
            assert error.value.code == "cursor-invalid"


@pytest.mark.parametrize("descending", [False, True], ids=["asc", "desc"])
@pytest.mark.parametrize("store", HISTORIES)
def test_what_expires_between_two_pages_is_not_in_the_second(store: str, descending: bool) -> None:
    """Regression: the next page of versions had those that are deleted soon."""
    of = view(store=store, window_size=10 if store == "window" else None, retention=RETENTION)
    with fed_partition(of) as partition:
        history = History(partition.instance.reads)

        def page(limit: int, cursor: str | None = None) -> tuple[list[Entry], str | None]:
            span = Span(descending=descending, limit=limit, cursor=cursor)
            _, found = history.read(b"a", ReadOptions(), span)
            return [json.loads(item) for item in found.items], found.next

        for n in range(6):
            partition.feed([record(store, n, "a", n * 10, n * 10, n)])
        first, cursor = page(2)
        partition.feed([record(store, 6, "b", 80, 80, 0)])
        whole, _ = page(100)
        rest, _ = page(100, cursor)
        assert rest == [each for each in whole if each not in first]


@pytest.mark.parametrize("store", ["window", "session"])
def test_a_key_with_many_entries_has_no_single_value(store: str) -> None:
    with fed_partition(view(store=store)) as partition:
        reads: ViewReads = WrongStoreReads(partition.instance.view, partition.instance.context)
        with pytest.raises(Problem, match=f"/{store}s") as error:
            reads.resolve_one(b"a")
        assert error.value.code == "wrong-store"


@pytest.mark.parametrize("store", ["window", "session"])
def test_the_smallest_time_can_be_read(store: str) -> None:
    """Regression: the horizon was no 64-bit number, and all reads of the partition were 500. Any
    bytes are the time in a record's key."""
    with fed_partition(view(store=store, retention=RETENTION)) as partition:
        partition.feed([record(store, 0, "a", -(1 << 63), 0, 1)])
        history = History(partition.instance.reads)
        _, page = history.read(b"a", ReadOptions(), Span())
        assert [json.loads(item)["start"] for item in page.items] == [
            0 if store == "session" else -(1 << 63)
        ]
