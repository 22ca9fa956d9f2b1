"""Coalesced reads of keys: the cheapest way to a value.

The sender has parsed the path and computed the partition. So a group of keys of one partition costs
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

log = logging.getLogger(__name__)

_MAX_KNOWN = 100_000  # partitions


class _Partition(NamedTuple):
    """A partition as the sender has named it: its number, and how many the view has."""

    responses: KeyResponses
    partitions: int
    number: int


def _readable(group: Reads, readable: frozenset[int]) -> list[int]:
    """The indexes of the reads of a group whose tokens may read the view."""
    tokens = [token for _, token in group.with_tokens()]
    return [index for index, token in enumerate(tokens) if token in readable]


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
        self._partitions: dict[bytes, _Partition | None] = {}

    def answer(self, groups: Iterable[Reads], readers: Readers, budget: AnswerBudget) -> KeysFrame:
        """The answers to each group. A read gets no answer if this instance cannot answer it now or
        would refuse it, if it exceeds the budget, or if it fails. Then the sender asks for it
        separately.

        Most groups are answered by the loop itself, because each function call would cost more than
        the work in it: see `ViewReads.resolve_in`.
        """
        now, known, frame = boot_time(), self._partitions, KeysFrame()
        hits: dict[tuple[KeyResponses, str], int] = {}  # by view and role
        # most requests have groups of one view
        last: KeyResponses | None = None
        partitions, is_certain = 0, False
        readable: frozenset[int] | None = None
        for group in groups:
            words, keys, tokens = group
            partition = known.get(words) or self._partition(words)
            if partition is None or budget.left < LARGE:
                frame.add(all_alone(len(keys)))
                continue
            responses, counted, number = partition
            try:
                if responses is not last:
                    last = None  # until nothing has failed
                    readable = (
                        None if readers is ANYONE else readers.tokens_that_read(responses.view.base)
                    )
                    partitions, is_certain = responses.reads.partition_count()
                    last = responses
                numbers = None  # of the keys that may be read; None: all
                if readable is not None and not readable.issuperset(tokens):
                    numbers = _readable(group, readable)
                    keys = [keys[index] for index in numbers]
                if counted != partitions or not keys:
                    frame.add(all_alone(len(group.texts)))
                    continue
                resolved = responses.reads.resolve_in(number, keys, is_certain, now, budget.left)
                state, entries, kept = resolved
                if (
                    numbers is not None
                    or kept is not None
                    or not responses.sends_entries
                    or None in entries
                    or (size := sum(sizes := list(map(len, entries)))) >= LARGE  # type: ignore[arg-type]
                ):
                    frame.add(self._in_part(group, responses, numbers, resolved, budget))
                    continue
                fixed, state_lines = responses.lines(state)
                budget.left -= size
                view_and_role = responses, state[0].role
                hits[view_and_role] = hits.get(view_and_role, 0) + len(sizes)
                frame.line_sizes += (len(fixed), len(state_lines), 0)
                frame.lines += (fixed, state_lines)
                frame.sizes += sizes
                frame.entries += entries  # type: ignore[arg-type]
            except (NotOwner, Problem):
                frame.add(all_alone(len(group.texts)))
            except Exception:
                last = None
                log.exception("coalesced reads of view %s", responses.view.name)
                frame.add(all_alone(len(group.texts)))
        for (responses, role), count in hits.items():
            responses.count_coalesced(self._turn, role, count, 0)
        return frame

    def _partition(self, words: bytes) -> _Partition | None:
        """The partition that these words name; None if its reads have to be sent separately."""
        known = self._partitions  # read before the views: `use` replaces both
        if words in known:
            return known[words]
        if len(known) >= _MAX_KNOWN:
            known.clear()
        partition = known[words] = self._parsed(words)
        return partition

    def _parsed(self, words: bytes) -> _Partition | None:
        try:
            name, key_format, partitioner, partitions, number = words.split(b" ")
            view = self._views[b"/views/%b/keys" % name]
            if (
                key_format.decode() != self._responses[view.name].reads.key_format
                or partitioner != view.partitioner.encode()
            ):
                return None
            # a result of a custom store has no ETag
            if view.is_custom or not view.kind.has_points:
                return None
            return _Partition(self._responses[view.name], int(partitions), int(number))
        except (ValueError, KeyError):
            return None

    def _in_part(
        self,
        group: Reads,
        responses: KeyResponses,
        numbers: list[int] | None,
        resolved: tuple[State, list[Entry | None], list[int] | None],
        budget: AnswerBudget,
    ) -> KeyAnswers:
        """The answers to the keys of a group that were resolved: the reads with these numbers
        (None: all), and of them the keys that `resolved` names."""
        state, entries, kept = resolved
        if kept is not None:
            numbers = kept if numbers is None else [numbers[index] for index in kept]
        if numbers is None:
            return self._rendered(responses, state, group.texts, entries, budget)
        if not numbers:
            return all_alone(len(group.texts))
        keys = [group.texts[number] for number in numbers]
        fixed, lines, miss, sizes, sent = self._rendered(responses, state, keys, entries, budget)
        spread = [ALONE] * len(group.texts)
        for number, size in zip(numbers, sizes, strict=True):
            spread[number] = size
        return fixed, lines, miss, spread, sent

    def _rendered(
        self,
        responses: KeyResponses,
        state: State,
        keys: Sequence[bytes],
        entries: Sequence[Entry | None],
        budget: AnswerBudget,
    ) -> KeyAnswers:
        """The answers to a group, also if keys are missing or not text, or values are large or not
        JSON."""
        is_as_stored = responses.sends_entries
        sizes: list[int] = []
        sent: list[Entry] = []
        misses = 0
        for key, entry in zip(keys, entries, strict=True):
            if entry is None:
                sizes.append(ABSENT)
                misses += 1
                continue
            if not is_as_stored and len(entry) < LARGE:
                try:
                    entry = responses.sent_entry(key[1:], entry)
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
