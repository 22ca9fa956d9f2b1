"""Coalesced reads of keys: the cheapest way to a value.

The proxy has parsed the path and computed the partition. So a group of keys of one partition costs
one check of the partition, one look-up in RocksDB and a few lines of headers; an entry is sent as
it is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from backend.http.access import ANYONE, Readers
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
    KeysFrame,
    Reads,
    all_alone,
)
from model.machine.clock import boot_time
from model.problems import Problem
from model.records import ENTRY_HEAD_SIZE

log = logging.getLogger(__name__)

_MAX_KNOWN = 100_000  # partitions


class _Partition(NamedTuple):
    """A partition as the proxy has named it: its number, and how many `partitions` the view has."""

    responses: KeyResponses
    partitions: int
    number: int


def _readable(group: Reads, readable: frozenset[int]) -> list[int]:
    """The indexes of the reads of a group whose tokens may read the view."""
    tokens = [token for _, token in group.with_tokens()]
    return [index for index, token in enumerate(tokens) if token in readable]


def _spread(answer: KeyAnswers, numbers: Sequence[int], count: int) -> KeyAnswers:
    """The answers to all `count` keys of a group. `answer` has those for the keys with these
    numbers; the other keys are sent separately."""
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
        """Uses other paths: other versions of views have become current. Called in any thread."""
        self._views = paths.prefixes
        self._partitions: dict[bytes | None, _Partition | None] = {}

    def answer(self, groups: Iterable[Reads], readers: Readers, budget: AnswerBudget) -> KeysFrame:
        """The answers to each group. A read gets no answer if this instance cannot answer it now or
        would refuse it, if it exceeds the budget, or if it fails. Then the proxy sends it
        separately.

        Most groups are answered by the loop itself, because each function call would cost more than
        the work in it: see `ViewReads.resolve_stored`.
        """
        now = boot_time()
        known = self._partitions
        frame = KeysFrame()
        hits: dict[tuple[KeyResponses, str], int] = {}  # by view and role
        # most requests have groups of one view
        last: KeyResponses | None = None
        partitions: int | None = None
        is_undoubted = False
        readable: frozenset[int] | None = None
        for group in groups:
            words, stored_keys, tokens = group
            answer: KeyAnswers | None = None
            partition = known.get(words) or self._partition(words)
            try:
                if partition is not None and budget.left >= LARGE:
                    responses, of, number = partition
                    if responses is not last:
                        last, partitions = responses, None  # if it is in no topology
                        readable = None if readers is ANYONE else readers.of(responses.view.base)
                        partitions, is_undoubted = responses.reads.partition_count()
                    numbers = None  # of the keys that may be answered; None: all
                    if readable is not None and not readable.issuperset(tokens):
                        numbers = _readable(group, readable)
                        stored_keys = [stored_keys[index] for index in numbers]
                    if of == partitions and stored_keys:
                        state, entries, kept = responses.reads.resolve_stored(
                            number, stored_keys, is_undoubted, now, budget.left
                        )
                        if kept is not None:
                            numbers = kept if numbers is None else [numbers[i] for i in kept]
                        if numbers is None and responses.sends_entries and None not in entries:
                            sizes = list(map(len, entries))  # type: ignore[arg-type]
                            size = sum(sizes)
                            if size < LARGE:
                                fixed, of_state = responses.lines(state)
                                budget.left -= size
                                view_and_role = responses, state[0].role
                                hits[view_and_role] = hits.get(view_and_role, 0) + len(sizes)
                                frame.line_sizes += (len(fixed), len(of_state), 0)
                                frame.lines += (fixed, of_state)
                                frame.sizes += sizes
                                frame.entries += entries  # type: ignore[arg-type]
                                continue
                        if entries:
                            answer = self._rendered(responses, state, entries, budget)
                            if numbers is not None:
                                answer = _spread(answer, numbers, len(group.texts))
            except (NotOwner, Problem):
                pass
            except Exception:
                last = answer = None
                log.exception("coalesced reads of view %s", responses.view.name)
            frame.add(answer or all_alone(len(group.texts)))
        for (responses, role), count in hits.items():
            responses.count_coalesced(self._turn, role, count, 0)
        return frame

    def _partition(self, words: bytes | None) -> _Partition | None:
        """The partition that these words name; None if its reads have to be sent separately."""
        known = self._partitions  # read before the views: `use` replaces both
        if words in known:
            return known[words]
        if len(known) >= _MAX_KNOWN:
            known.clear()
        partition = known[words] = self._parsed(words or b"")
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
        """The answers to a group, also if keys are missing, or values are large or not JSON."""
        to_json = None if responses.sends_entries else responses.reads.value_json
        sizes: list[int] = []
        sent: list[Entry] = []
        misses = 0
        for entry in entries:
            if entry is None:
                sizes.append(ABSENT)
                misses += 1
                continue
            if to_json is not None and len(entry) < LARGE:
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
        role = state.store_partition.role
        responses.count_coalesced(self._turn, role, len(sent), misses)
        fixed, lines = responses.lines(state)
        return fixed, lines, responses.miss_lines(state) if misses else b"", sizes, sent
