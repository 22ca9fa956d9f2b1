"""The keys of windows or sessions with the greatest (or least) numbers: for `top`.

The entries of a key follow each other in a partition, so a reducer keeps the numbers of one key at
a time. An item is the key with its number, like that of a table with one number per key. The first
and the last key of a response may have more entries in the responses before and after it, so the
response has all numbers of these two, and the merger adds them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from decimal import Decimal
from itertools import groupby

from backend.queries.scans.merging import slices
from backend.queries.turns import next_turn
from backend.queries.whole_view.fields import Number, NumberField
from backend.queries.whole_view.numbers import Numbers, number_json
from backend.queries.whole_view.order import ENTRIES, number_of, rank_of
from backend.queries.whole_view.ranking import Best, Ranked
from backend.wire.scan import ScanResponse
from model.kinds.kind import DOCUMENT
from model.problems import BadRequest
from model.records import ENTRY_HEAD_SIZE
from model.rows.documents import Documents
from model.rows.row_view import Pair
from model.views import View

OPEN_KEYS = 2
"""The number of rows in a response for keys that may have more entries in other responses."""

_NO_HEAD = bytes(ENTRY_HEAD_SIZE)  # an item is not a record
_VALUE = b',"value":'
_INFINITE = {"Infinity": float("inf"), "-Infinity": float("-inf")}


class KeyRanking:
    """Ranks keys by a number of all their entries, which is the value of their item."""

    def __init__(self, view: View, by: str | None, order_by: str, descending: bool) -> None:
        """`by`: the field with numbers. `order_by`: one of `ORDERS`. Raises BadRequest if the view
        has no such numbers."""
        has_numbers = by is not None or view.value_codec.is_number or order_by != ENTRIES
        self.numbers = NumberField(view, by, "by") if has_numbers else None
        self._order_by, self._descending = order_by, descending
        self._tail = view.kind.tail
        self._key_json = view.key_codec.to_json
        self._entry_key = view.layout.entry_key

    def head(self, stored_key: bytes) -> bytes:
        """The part of a stored key that all entries of the key have in common."""
        return stored_key[: -self._tail]

    def ranked(self, stored_key: bytes, numbers: Numbers) -> Ranked | None:
        """The key with its rank and its item; None if it has no number."""
        if self._order_by == "count" and not numbers.count:
            return None  # as an entry without a number
        number = number_of(numbers, self._order_by)
        rank = rank_of(_as_written(number), self._descending)
        if rank is None:
            return None
        key = self._key_json(self._entry_key(stored_key).key)
        return rank, stored_key, DOCUMENT % (key, number_json(number))

    def rank_of_item(self, item: bytes) -> Number | None:
        """Raises ValueError if the item has no number."""
        value = json.loads(item.rpartition(_VALUE)[2][:-1], parse_float=Decimal)
        number = _INFINITE.get(value, value)
        if not isinstance(number, int | float | Decimal):
            raise ValueError("an item has no number")
        return rank_of(number, self._descending)

    def refusal(self, text: str) -> BadRequest:
        """The refusal if the field has texts, but no number."""
        assert self.numbers is not None
        return self.numbers.refusal("by", text)


def _as_written(number: Number | None) -> Number | None:
    """The number that a reader of the item gets, with all digits of decimals. So a key has the same
    rank on each instance."""
    if isinstance(number, float) and math.isfinite(number):
        return Decimal(repr(number))
    return number


class KeyReducer:
    """The first keys of one partition."""

    def __init__(self, view: View, ranking: KeyRanking, best: Best) -> None:
        self._documents = Documents(view)
        self._ranking = ranking
        self._best = best
        self._first: tuple[bytes, Numbers] | None = None
        self._key = b""  # the first stored key of the key that is being read
        self._numbers = Numbers()
        self._has_numbers = False

    def add(self, pairs: list[Pair]) -> None:
        numbers: list[Number | None] = [None] * len(pairs)
        if self._ranking.numbers is not None:
            documents = self._documents.parse([stored[ENTRY_HEAD_SIZE:] for _, stored in pairs])
            numbers = self._ranking.numbers.values(documents)
        head, ranked, at = self._ranking.head, [], 0
        for entry_head, entries in groupby(pairs, lambda pair: head(pair[0])):
            if entry_head != head(self._key):
                ranked += self._end_of_key()
                self._key = pairs[at][0]
            end = at + sum(1 for _ in entries)
            self._numbers.entries += end - at
            for number in numbers[at:end]:
                if number is not None:
                    self._numbers.add(number)
            at = end
        self._best.add(ranked)

    def _end_of_key(self) -> list[Ranked]:
        """The key that has been read, if it is among the first ones so far."""
        key, numbers = self._key, self._numbers
        self._numbers = Numbers()
        if not numbers.entries:
            return []
        self._has_numbers = self._has_numbers or numbers.count > 0
        if self._first is None:
            self._first = key, numbers
            return []
        ranked, worst = self._ranking.ranked(key, numbers), self._best.worst
        # keys come in order: a key of the worst rank comes after those that have this rank
        return [] if ranked is None or (worst is not None and ranked[0] >= worst) else [ranked]

    async def fill(self, response: ScanResponse) -> None:
        """Put the numbers of the first and the last key into the response, then the items of
        others, then the first one that was left out, if not `complete`. If no entry has a number,
        the first key has a text instead."""
        last = self._key, self._numbers
        self._has_numbers = self._has_numbers or self._numbers.count > 0
        open_keys = [last] if self._first is None else [self._first, last]
        open_keys = [(key, numbers) for key, numbers in open_keys if numbers.entries]
        field = self._ranking.numbers
        if open_keys and field is not None and not self._has_numbers:
            open_keys[0][1].text = field.text
        best = self._best
        ranked = best.entries if best.end is None else [*best.entries, best.end]
        response.rows = [(key, _NO_HEAD, numbers.to_wire()) for key, numbers in open_keys]
        response.rows += [(key, _NO_HEAD, item) for _, key, item in ranked]
        response.complete = best.end is None


class KeyMerger:
    """Merges the first keys of all partitions."""

    def __init__(self, ranking: KeyRanking, best: Best) -> None:
        self._ranking = ranking
        self._best = best
        # a walk has a limited time, so these are limited, too
        self._open: dict[bytes, tuple[bytes, Numbers]] = {}

    async def add(self, response: ScanResponse) -> None:
        ranked: list[Ranked] = []
        for rows in slices(response.rows):
            for key, _, item in rows:
                if item.startswith(b"["):
                    head, numbers = self._ranking.head(key), Numbers.from_wire(item)
                    self._open.setdefault(head, (key, Numbers()))[1].merge(numbers)
                elif (rank := self._ranking.rank_of_item(item)) is not None:
                    ranked.append((rank, key, item))
            await next_turn()  # the rows may be large
        self._best.add(ranked, response.complete)

    def finish(self) -> Best:
        """The first keys. Raises BadRequest if the field has texts, but no number."""
        keys = (self._ranking.ranked(key, numbers) for key, numbers in self._open.values())
        self._best.add([key for key in keys if key is not None])
        texts: Iterable[str | None] = (numbers.text for _, numbers in self._open.values())
        if not self._best.entries and (text := next(filter(None, texts), None)) is not None:
            raise self._ranking.refusal(text)
        return self._best
