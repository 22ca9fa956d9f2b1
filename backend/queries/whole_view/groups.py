"""The groups of `aggregate`, and their rows between instances."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from backend.queries.turns import in_steps
from backend.queries.whole_view.group_names import place
from backend.queries.whole_view.numbers import Numbers
from backend.wire.scan import Row, ScanResponse
from model.formats.json_decoder import decode_json
from model.formats.json_encoder import encode_json
from model.records import ENTRY_HEAD_SIZE

MAX_GROUPS = 10_000
MAX_GROUP_BYTES = 4 << 20  # of all groups' names together
_NO_HEAD = bytes(ENTRY_HEAD_SIZE)  # a group is not a record

Totals = list[Numbers]
"""Of one group: the numbers of each field. The first has the number of entries."""


class Groups:
    """Totals by the JSON text of their group, in bounded memory."""

    def __init__(self, fields: int) -> None:
        """`fields`: the number of fields that each group has numbers of; at least one."""
        self.by_name: dict[bytes, Totals] = {}
        self.is_complete = True
        self._fields = fields
        self._bytes = 0

    def totals(self, name: bytes) -> Totals | None:
        """The totals of a group; None if there are too many groups."""
        totals = self.by_name.get(name)
        if totals is None:
            self._bytes += len(name)
            if len(self.by_name) >= MAX_GROUPS or self._bytes > MAX_GROUP_BYTES:
                self.is_complete = False
                return None
            totals = self.by_name[name] = [Numbers() for _ in range(self._fields)]
        return totals

    def merge(self, row: Row) -> None:
        """Add a row of `rows`. Raises ValueError if it is malformed."""
        name, _, item = row
        totals = self.totals(name)
        if totals is None:
            return
        if self._fields == 1:
            totals[0].merge(Numbers.from_wire(item))
            return
        for numbers, part in zip(totals, json.loads(item), strict=True):
            numbers.merge(Numbers.from_wire(part))

    async def fill(self, response: ScanResponse) -> None:
        """One row for each group: its name, and its totals."""
        async for piece in in_steps(self.by_name.items()):
            response.rows += [(name, _NO_HEAD, _to_wire(totals)) for name, totals in piece]
        response.complete = self.is_complete

    async def names(self, are_lists: bool = False) -> list[bytes]:
        """The names in order: null, false, true, numbers, texts, then others by their JSON.
        `are_lists`: each name is a list of names, which are compared one after the other."""
        if are_lists:
            keys: list[tuple[tuple[tuple[int, Any], ...], bytes]] = []
            async for piece in in_steps(self.by_name):
                keys += [(_places(name), name) for name in piece]
            return [name for _, name in sorted(keys)]
        by_rank: dict[int, tuple[list[Any], list[bytes]]] = {}
        async for piece in in_steps(self.by_name):
            for name in piece:
                rank, value = place(name)
                values, names = by_rank.setdefault(rank, ([], []))
                values.append(value)
                names.append(name)
        in_order: list[bytes] = []
        for rank in sorted(by_rank):
            values, names = by_rank[rank]
            # values of one type only, which is the fastest to sort
            in_order += [names[n] for n in sorted(range(len(values)), key=values.__getitem__)]
        return in_order

    def text(self, field: int) -> str | None:
        """A text that stands instead of a number of the field, if there is no number."""
        numbers = [totals[field] for totals in self.by_name.values()]
        if any(each.count for each in numbers):
            return None
        return next((each.text for each in numbers if each.text), None)


def _places(name: bytes) -> tuple[tuple[int, Any], ...]:
    return tuple(place(encode_json(part, sorted_=True)) for part in decode_json(name))


def _to_wire(totals: Sequence[Numbers]) -> bytes:
    if len(totals) == 1:
        return totals[0].to_wire()
    return json.dumps([numbers.to_wire().decode() for numbers in totals]).encode()
