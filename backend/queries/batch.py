"""Many point reads in one request. Each instance that has some of the keys gets one request."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from backend.cluster.peer_client import PeerClient
from backend.instance.context import QueryContext
from backend.queries.key_bodies import MAX_KEYS, record_key, text_keys
from backend.queries.moved_keys import PartitionUnknown
from backend.queries.point import Entry, Unresolved, ViewReads, count_refusal
from backend.queries.retry import OLDER_VERSION, Asker, Holder, Rounds, Turn, knows_less
from backend.queries.routing import PLAIN, NotOwner, ReadOptions
from backend.queries.scans.any_partition import AnyPartitionReads
from backend.queries.scans.freshness import Freshness
from backend.queries.served_by import ServedBy, roles_said
from backend.queries.stores import KEYS, refuse_store
from backend.queries.turns import next_turn
from backend.storage.bounded_reads import NOT_READ, ReadBudget
from backend.wire.batch_items import MISSING, item_of, problem_item
from backend.wire.scan import ALLOW, NEVER
from backend.wire.scan_codec import pack, unpack
from model.formats.json_encoder import encode_json
from model.problems import NonRetryable, Problem, Unavailable
from model.view_versions import base_of
from model.views import View

BATCH_PATH = b"/internal/batch"
MAX_ANSWER_BYTES = 32 << 20  # of all items of one batch, also of a batch from another instance
_TURN = 128  # keys that are read before the event loop runs other tasks
_FIRST_TURN = 16  # keys; also the number that is read together, because values may be large
_TURN_BYTES = 1 << 18  # of the items of a turn, if they are as large as the last turn's items
_FINAL, _AGAIN, _ALL = b".", b"?", b"*"  # marks: final, ask again, ask all partitions
_MARKS = {_FINAL, _AGAIN, _ALL}
_AT_ONCE = 8  # keys for which several partitions are asked at the same time
_SECONDS = 8.0  # s for all of them: less than the time-out of clients

# for keys beyond MAX_ANSWER_BYTES: the client can ask for them in another request
_TOO_LARGE = Unavailable("overloaded", "The batch has too many bytes of values.")
# for keys that were not asked for in _SECONDS: each waits for its partitions
_TOO_LONG = Unavailable("took-too-long", "Too many keys wait for their partitions.")

_T = TypeVar("_T")

_Open = NotOwner | bytes
"""The instances that have the key, or the mark of its item."""


class _ReadBudget:
    """How many bytes one batch may still read, and how many keys per turn."""

    def __init__(self) -> None:
        self.left = MAX_ANSWER_BYTES
        self.turn = _FIRST_TURN

    def end_turn(self, items: list[bytes]) -> None:
        """Set the size of the next turn, after a turn of items that were read here."""
        average = sum(map(len, items)) // len(items) + 1
        self.turn = max(1, min(_TURN, _TURN_BYTES // average))

    def take(self, item: bytes) -> bool:
        """Charge an item from another instance; return whether it is within the budget."""
        is_within = self.left > 0
        self.left -= len(item) if is_within else 0
        return is_within


@dataclass
class BatchResult:
    """JSON items in the order of the keys, and the instances that read them."""

    items: list[bytes]
    answerers: ServedBy


class Batches:
    """Batches of all views: reads the keys that are here, and asks other instances for the rest."""

    def __init__(
        self,
        context: QueryContext,
        reads: dict[str, ViewReads],
        peer_client: PeerClient,
        any_partition: AnyPartitionReads,
    ) -> None:
        self._any_partition = any_partition
        self._me = context.settings.instance_id
        self._reads = reads
        self._asker = Asker(context, peer_client)

    async def read(
        self, view: View, asked: list[tuple[Any, bytes]], options: ReadOptions
    ) -> BatchResult:
        """The items of a client's batch. `asked`: keys as parsed JSON, and as written. Of the
        options, only `stale` and `timestamps` are passed to other instances."""
        reads = self._reads[view.name]
        batch = _ClientBatch(
            self._asker, self._any_partition, self._me, reads, options, [b""] * len(asked)
        )
        await batch.read(_keys_of(reads, asked, batch.items))
        if other_keys := _others(reads, batch.keys, batch.items):
            missing = {number: batch.items[number] for number in other_keys}
            await batch.read(other_keys)
            for number, item in missing.items():
                if batch.items[number].endswith(MISSING):
                    batch.items[number] = item  # with the key as the client has written it
        return BatchResult(batch.items, batch.answerers)

    async def serve(self, body: bytes, admit: Callable[[str], object]) -> BatchResult:
        """The items for another instance's batch, with their marks. Raises ValueError, BadRequest,
        Unavailable. `admit` raises a Problem if the sender may not read the view."""
        asked_of, view_hash, *keys = unpack(body, 2 + MAX_KEYS)
        name, _, query = asked_of.partition(b"?")
        admit(base_of(name.decode()))
        options = _options_of(query)
        reads = self._reads.get(name.decode())
        if reads is None or reads.view.hash.encode() != view_hash:
            raise Unavailable("definition-differs", "The definition of the view differs here.")
        refuse_store(reads.view, KEYS)
        for key in keys:
            reads.parse_raw_key(key)
        to_json = reads.view.key_codec.to_json
        items: list[bytes] = []
        roles, budget = set[str](), _ReadBudget()
        async for turn in _turns(keys, budget):
            read, open_ = _read(reads, turn, options, roles, budget)
            marks = [_FINAL] * len(read)
            for place, state in open_.items():
                if isinstance(state, NotOwner):
                    why = problem_item(to_json(turn[place]), state.why)
                    marks[place], read[place] = _AGAIN, why
                else:
                    marks[place] = state
            items += [mark + item for mark, item in zip(marks, read, strict=True)]
        answerers = ServedBy()
        answerers.add(self._me, roles)
        return BatchResult(items, answerers)


class _ClientBatch:
    """One batch of a client, while it is being answered.

    `keys`: the record keys that are read, by the number of their items. `items`: the items so far;
    a later round may replace them. `answerers`: the instances that have read them.
    """

    def __init__(
        self,
        asker: Asker,
        any_partition: AnyPartitionReads,
        me: str,
        reads: ViewReads,
        options: ReadOptions,
        items: list[bytes],
    ) -> None:
        """`me`: the id of this instance. `items`: written in place."""
        self._asker = asker
        self._any_partition = any_partition
        self._me = me
        self._reads = reads
        self._options = options
        self._budget = _ReadBudget()
        self.keys: dict[int, bytes] = {}
        self.items = items
        self.answerers = ServedBy()

    async def read(self, keys: dict[int, bytes]) -> None:
        """Write the item of each key. `keys`: by their numbers."""
        self.keys = keys
        left, in_any = list(keys), list[int]()
        rounds = self._asker.rounds()

        async def attempt() -> bool:
            nonlocal left
            marks = await self._round(left, rounds)
            left = [number for number, mark in marks if mark == _AGAIN]
            in_any.extend(number for number, mark in marks if mark == _ALL)
            return bool(left)

        await rounds.repeat(attempt)
        await self._ask_all_partitions(in_any)

    async def _round(self, left: list[int], rounds: Rounds[Holder]) -> list[tuple[int, bytes]]:
        """Writes an item for each key in `left`; returns the marks of the items that this instance
        has not read. Each round asks the next instance that has a key."""
        marks: list[tuple[int, bytes]] = []
        asked_of_others: dict[Turn[Holder], list[int]] = {}
        roles = set[str]()
        async for numbers in _turns(left, self._budget):
            keys = [self.keys[number] for number in numbers]
            read, open_ = _read(self._reads, keys, self._options, roles, self._budget)
            for number, item in zip(numbers, read, strict=True):
                self.items[number] = item
            for place, state in open_.items():
                if isinstance(state, NotOwner):
                    turn = rounds.turn(state.partition, state.members)
                    asked_of_others.setdefault(turn, []).append(numbers[place])
                else:
                    marks.append((numbers[place], state))
        self.answerers.add(self._me, roles)
        answers = await asyncio.gather(*(self._ask(*asked) for asked in asked_of_others.items()))
        for numbers_asked, items_of_member in zip(asked_of_others.values(), answers, strict=True):
            for number, item in zip(numbers_asked, items_of_member, strict=True):
                self.items[number] = item[1:]
                marks.append((number, item[:1]))
        return marks

    async def _ask(self, turn: Turn[Holder], numbers: list[int]) -> list[bytes]:
        """The items from another instance; each starts with its mark."""
        reads, budget = self._reads, self._budget
        to_json = reads.view.key_codec.to_json
        keys = [self.keys[number] for number in numbers]

        def too_large(key: bytes) -> bytes:
            return _FINAL + problem_item(to_json(key), _TOO_LARGE)

        if budget.left <= 0:
            return list(map(too_large, keys))
        member = turn.holder
        assert member is not None
        view = reads.view
        body = pack([_asked_of(view, self._options), view.hash.encode(), *keys])
        reads.counts.forwarded += len(keys)
        try:
            answer = await self._asker.ask(turn, "POST", BATCH_PATH, [], body)
            items = unpack(answer.body, len(keys)) if answer.status == 200 else []
            if len(items) == len(keys) and _MARKS.issuperset(item[:1] for item in items):
                if any(item[:1] == _FINAL for item in items):
                    self.answerers.add(member.id, roles_said(answer.headers))
                keyed_items = zip(keys, items, strict=True)
                return [item if budget.take(item) else too_large(key) for key, item in keyed_items]
            code = OLDER_VERSION if knows_less(answer) else "owner-unreachable"
            problem = Unavailable(code, "")
        except ValueError:
            problem = Unavailable("owner-unreachable", "")
        except Unavailable as unavailable:
            problem = unavailable
        return [_AGAIN + problem_item(to_json(key), problem) for key in keys]

    async def _ask_all_partitions(self, numbers: list[int]) -> None:
        """Writes the items of keys that may be in any partition, some at the same time."""
        places, ends = asyncio.Semaphore(_AT_ONCE), time.monotonic() + _SECONDS

        async def ask(number: int) -> None:
            async with places:
                if self._budget.left <= 0 or time.monotonic() > ends:
                    why = _TOO_LARGE if self._budget.left <= 0 else _TOO_LONG
                    key_json = self._reads.view.key_codec.to_json(self.keys[number])
                    self.items[number] = problem_item(key_json, why)
                    return
                self.items[number] = await self._newest(self.keys[number])
                self._budget.left -= len(self.items[number])

        await asyncio.gather(*map(ask, numbers))

    async def _newest(self, key: bytes) -> bytes:
        """The item of a key, from all partitions."""
        view = self._reads.view
        key_json = view.key_codec.to_json(key)
        try:
            freshness = Freshness(answerers=self.answerers)
            entry = await self._any_partition.newest(view, key, self._options, freshness)
            return item_of(key_json, entry, view.value_codec.to_json, self._options.timestamps)
        except Problem as problem:
            return problem_item(key_json, problem)


def _keys_of(
    reads: ViewReads, asked: list[tuple[Any, bytes]], items: list[bytes]
) -> dict[int, bytes]:
    """The record keys, by number. Writes the items of those that are malformed."""
    keys = text_keys(reads, asked)
    if keys is not None:
        return keys
    keys = {}
    for number, (value, written) in enumerate(asked):
        try:
            keys[number] = record_key(reads, value, written)
        except Problem as problem:
            count_refusal(reads.counts, problem)
            items[number] = problem_item(written or encode_json(value), problem)
    return keys


def _options_of(query: bytes) -> ReadOptions:
    """The inverse of what `_asked_of` writes. Raises ValueError."""
    if not query:
        return PLAIN
    options = dict(option.partition("=")[::2] for option in query.decode("latin-1").split("&"))
    stale, timestamps = options.pop("stale", None), options.pop("timestamps", None)
    if options or stale not in (ALLOW, NEVER, None) or timestamps not in ("true", None):
        raise ValueError("about a view with options that are unknown here")
    return ReadOptions(stale=stale, timestamps=timestamps is not None)


def _asked_of(view: View, options: ReadOptions) -> bytes:
    """The view's name, and `?stale=` and `timestamps=` if they are given. An instance of an older
    version has no view of such a name, so it refuses: it would not know that only the active
    may answer.
    """
    stale = None if options.stale is None else f"stale={options.stale}"
    parameters = [*filter(None, (stale, "timestamps=true" if options.timestamps else None))]
    return f"{view.name}{'?' if parameters else ''}{'&'.join(parameters)}".encode()


async def _turns(items: Sequence[_T], budget: _ReadBudget) -> AsyncIterator[Sequence[_T]]:
    """The items in turns; other tasks run in between."""
    start = 0
    while start < len(items):
        if start:
            await next_turn()
        end = start + budget.turn
        yield items[start:end]
        start = end


def _others(reads: ViewReads, keys: dict[int, bytes], items: list[bytes]) -> dict[int, bytes]:
    """For each missing key, the other key that its text may mean (`Codec.other_key`)."""
    other_keys = {}
    for number, key in keys.items():
        if items[number].endswith(MISSING) and (other_key := reads.other_key(key)) is not None:
            other_keys[number] = other_key
    return other_keys


def _read(
    reads: ViewReads,
    keys: Sequence[bytes],
    options: ReadOptions,
    roles: set[str],
    budget: _ReadBudget,
) -> tuple[list[bytes], dict[int, _Open]]:
    """An item for each key; and, by index in `keys`, the keys whose item is not final yet. Adds the
    roles in which this instance has read to `roles`."""
    to_json = reads.view.key_codec.to_json
    if budget.left <= 0:
        return [problem_item(to_json(key), _TOO_LARGE) for key in keys], {}
    items = [b""] * len(keys)
    open_: dict[int, _Open] = {}
    for outcome in reads.resolve(keys, options, ReadBudget(budget.left, sys.maxsize, _FIRST_TURN)):
        if isinstance(outcome, Unresolved):
            for number in outcome.numbers:
                items[number], mark = _unresolved(reads, to_json(keys[number]), outcome.why)
                if mark is not None:
                    open_[number] = mark
            continue
        roles.add(outcome.state.store_partition.role)
        for number, entry in zip(outcome.numbers, outcome.entries, strict=True):
            key_json = to_json(keys[number])
            if entry is NOT_READ or budget.left <= 0:
                items[number] = problem_item(key_json, _TOO_LARGE)
                continue
            try:
                items[number] = _resolved(reads, key_json, entry, options)
            except Unavailable as problem:  # the schema of the value is missing
                why = reads.elsewhere(outcome.state.store_partition.partition, problem, options)
                items[number], mark = _unresolved(reads, key_json, why)
                if mark is not None:
                    open_[number] = mark
            budget.left -= len(items[number])
    budget.end_turn(items)
    return items, open_


def _resolved(
    reads: ViewReads, key_json: bytes, entry: Entry | None, options: ReadOptions
) -> bytes:
    item = item_of(key_json, entry, reads.value_json, options.timestamps)
    if entry is None:
        reads.counts.missed += 1
    else:
        reads.counts.found += 1
    return item


def _unresolved(
    reads: ViewReads, key_json: bytes, why: NotOwner | Problem
) -> tuple[bytes, _Open | None]:
    """The item, and where to ask for the key next (None: the item is final)."""
    if isinstance(why, NotOwner):
        return b"", why
    if isinstance(why, PartitionUnknown):
        return problem_item(key_json, why), _ALL
    may_change = why.status == 503 and not isinstance(why, NonRetryable)
    count_refusal(reads.counts, why)
    return problem_item(key_json, why), _AGAIN if may_change else None
