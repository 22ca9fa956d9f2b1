"""Coalesced reads of keys: the cheapest way to a value.

The proxy has parsed the path and computed the partition. So a group of keys of one partition costs
one check of the partition, one look-up in RocksDB and a few lines of headers; an entry is sent as
it is stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from backend.http.access import Readers
from backend.http.paths import Paths
from backend.http.responses import KeyResponses
from backend.queries.point import Entry, State
from backend.queries.routing import NotOwner
from backend.telemetry.latencies import TurnReads
from backend.wire.point_batch import (
    ABSENT,
    ALONE,
    LARGE,
    AnswerBudget,
    KeyAnswers,
    Reads,
    all_alone,
)
from model.problems import Problem
from model.records import ENTRY_HEAD_SIZE

log = logging.getLogger(__name__)

_MAX_KNOWN = 100_000  # partitions


class _Partition(NamedTuple):
    """A partition as the proxy has named it: of so many `partitions`."""

    responses: KeyResponses
    partitions: int
    number: int


def _partition_count(responses: KeyResponses) -> tuple[int, bool]:
    """The number of partitions of the view, 0 if it is unknown; and whether the partition of every
    key follows from it."""
    try:
        return responses.reads.partition_count()
    except Problem:
        return 0, False


def _readable(group: Reads, readable: frozenset[int]) -> list[int]:
    """The indexes of the reads of a group whose tokens may read the view."""
    tokens = [token for _, token in group.with_tokens()]
    return [index for index, token in enumerate(tokens) if token in readable]


def _spread(answer: KeyAnswers, numbers: Sequence[int], count: int) -> KeyAnswers:
    """The answers to the keys with these numbers, of so many; the others are sent separately."""
    fixed, state, miss, sizes, entries = answer
    spread = [ALONE] * count
    for number, size in zip(numbers, sizes, strict=True):
        spread[number] = size
    return fixed, state, miss, spread, entries


class BatchedKeys:
    """Answers groups of keys."""

    def __init__(
        self,
        paths: Paths,
        responses: Mapping[str, KeyResponses],
        turn: TurnReads,
    ) -> None:
        self._responses = responses
        self._turn = turn
        self.use(paths)

    def use(self, paths: Paths) -> None:
        """Other versions of views are current. Called in any thread."""
        self._views = paths.prefixes
        self._partitions: dict[bytes, _Partition | None] = {}

    def answer(
        self, groups: Iterable[Reads], readers: Readers, budget: AnswerBudget
    ) -> list[KeyAnswers]:
        """The answers to each group. The proxy sends reads separately if this instance cannot
        answer them now, or would refuse them, if they exceed the budget, and if they fail."""
        now = time.monotonic()
        answers: list[KeyAnswers] = []
        # most requests have groups of one view
        last: KeyResponses | None = None
        partitions, is_undoubted = 0, False
        readable: frozenset[int] | None = None
        for group in groups:
            answer = None
            words, stored_keys, tokens = group
            partition = self._partition(words or b"")
            if partition is not None and not budget.is_spent:
                responses, of, number = partition
                try:
                    if responses is not last:
                        partitions, is_undoubted = _partition_count(responses)
                        readable = readers.of(responses.view.base)
                        last = responses
                    if of == partitions:
                        numbers = None
                        if readable is not None and not readable.issuperset(tokens):
                            numbers = _readable(group, readable)
                            stored_keys = [stored_keys[index] for index in numbers]
                        answer = self._in_partition(
                            responses, number, stored_keys, is_undoubted, budget, now
                        )
                        if answer is not None and numbers is not None:
                            answer = _spread(answer, numbers, len(group.texts))
                except Exception:
                    last = None
                    log.exception("coalesced reads of view %s", responses.view.name)
            answers.append(answer or all_alone(len(group.texts)))
        return answers

    def _in_partition(
        self,
        responses: KeyResponses,
        number: int,
        stored_keys: list[bytes],
        is_undoubted: bool,
        budget: AnswerBudget,
        now: float,
    ) -> KeyAnswers | None:
        if not stored_keys:
            return None
        try:
            state, entries, numbers = responses.reads.resolve_stored(
                number, stored_keys, is_undoubted, now
            )
        except (NotOwner, Problem):
            return None
        if not entries:
            return None
        answer: KeyAnswers | None = None
        if responses.sends_entries and None not in entries:
            sizes = list(map(len, entries))  # type: ignore[arg-type]
            if max(sizes) < LARGE and budget.take(sum(sizes)):
                responses.count_coalesced(self._turn, state, len(sizes), 0)
                fixed, lines = responses.fixed_lines(state), responses.state_lines(state)
                answer = fixed, lines, b"", sizes, entries  # type: ignore[assignment]
        if answer is None:
            answer = self._rendered(responses, state, entries, budget)
        return answer if numbers is None else _spread(answer, numbers, len(stored_keys))

    def _partition(self, words: bytes) -> _Partition | None:
        """None if reads of it have to be sent separately."""
        known = self._partitions  # before the views: `use` replaces both
        if words in known:
            return known[words]
        if len(known) >= _MAX_KNOWN:
            known.clear()
        partition = known[words] = self._parsed(words)
        return partition

    def _parsed(self, words: bytes) -> _Partition | None:
        try:
            name, partitioner, partitions, number = words.split(b" ")
            view = self._views[b"/views/%b/keys" % name]
            responses = self._responses[view.name]
            if partitioner != view.partitioner.encode() or not responses.reads.stores_text:
                return None
            return _Partition(responses, int(partitions), int(number))
        except (ValueError, KeyError):
            return None

    def _rendered(
        self,
        responses: KeyResponses,
        state: State,
        entries: Sequence[Entry | None],
        budget: AnswerBudget,
    ) -> KeyAnswers:
        """As above, also if keys are missing, or values are large or not JSON."""
        to_json = None if responses.sends_entries else responses.reads.value_json
        sizes: list[int] = []
        sent: list[Entry] = []
        misses = 0
        for entry in entries:
            if entry is None:
                sizes.append(ABSENT)
                misses += 1
                continue
            if to_json is not None:
                try:
                    entry = entry[:ENTRY_HEAD_SIZE] + to_json(entry[ENTRY_HEAD_SIZE:])
                except Problem:  # the schema of the value is missing
                    sizes.append(ALONE)
                    continue
            size = len(entry)
            if size >= LARGE or not budget.take(size):
                sizes.append(ALONE)
                continue
            sizes.append(size)
            sent.append(entry)
        responses.count_coalesced(self._turn, state, len(sent), misses)
        return (
            responses.fixed_lines(state),
            responses.state_lines(state),
            responses.miss_lines(state) if misses else b"",
            sizes,
            sent,
        )
