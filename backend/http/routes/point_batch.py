"""Point reads that the proxy sends together: `POST /internal/reads`.

Each is answered as it would be alone, or left to be asked alone: all that waits, is refused, or is
for others to answer. What a read costs here is what the proxy's throughput is made of: keys are
placed together, each store partition is asked once, and what its answers share is written once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from backend.http.paths import Paths
from backend.instance_context import InstanceContext
from backend.queries.multi_get import placed
from backend.queries.point import DOCUMENT, ViewReads
from backend.queries.representation import VARY
from backend.queries.routing import PLAIN, NotOwner
from backend.wire.answer import JSON, Answer, Header, problem_answer
from backend.wire.plain_requests import MOST_BYTES, are_plain, is_plain
from backend.wire.point_batch import (
    ASK_ALONE,
    MOST_READS,
    Head,
    Item,
    decode_paths,
    encode_answers,
)
from model.problems import BadRequest, Problem, StoreClosedError, StoreError, Unavailable
from model.records import ENTRY_HEAD_SIZE, entry_offset

PATH = b"/internal/reads"

CONTENT_TYPE: Header = (b"content-type", b"application/octet-stream")

_LARGE = 65_536  # bytes of a value that had better travel alone


class _Asked(NamedTuple):
    """Keys of one view, each with its place among the reads."""

    numbers: list[int]
    keys: list[bytes]


class PointBatchRoute:
    """Answers to many point reads at once."""

    def __init__(
        self,
        context: InstanceContext,
        paths: Paths,
        reads: Mapping[str, ViewReads],
        answer_now: Callable[[bytes], Answer | None],
    ) -> None:
        """`answer_now(raw_path)`: the answer to one of them, or None if it has to wait."""
        self._context = context
        self._answer_now = answer_now
        self._by_prefix = {
            prefix: reads[view.name]
            for prefix, view in paths.prefixes.items()
            if type(reads[view.name]) is ViewReads
        }

    def answer(self, body: bytes) -> Answer:
        """The framed answers to framed paths; 400 if there are too many."""
        try:
            paths = decode_paths(body)
        except ValueError:
            detail = f"At most {MOST_READS} reads travel together."
            return problem_answer(BadRequest("too-many-keys", detail))
        heads: list[Head] = []
        items = [ASK_ALONE] * len(paths)
        by_view: defaultdict[ViewReads, _Asked] = defaultdict(lambda: _Asked([], []))
        one_by_one: list[int] = []
        by_prefix = self._by_prefix
        are_all_plain = are_plain(body) and max(map(len, paths)) <= MOST_BYTES
        for number, path in enumerate(paths):
            # what a parser might refuse, or read otherwise, is a parser's to read
            if not are_all_plain and not is_plain(path):
                continue
            prefix, _, text = path.rpartition(b"/")
            reads = by_prefix.get(prefix)
            if reads is None or b"%" in text:
                one_by_one.append(number)
                continue
            numbers, texts = by_view[reads]
            numbers.append(number)
            texts.append(text)
        for reads, (numbers, texts) in by_view.items():
            try:
                keys = reads.parse_keys(texts)
            except Problem:
                one_by_one += numbers
                continue
            one_by_one += self._of_view(reads, _Asked(numbers, keys), heads, items)
        for number in one_by_one:
            answer = self._answer_now(paths[number])
            if answer is not None and len(answer.body) < _LARGE:
                items[number] = _item(answer, heads)
        framed = encode_answers(self._context.epoch_header, heads, items)
        return Answer(200, [CONTENT_TYPE], framed)

    def _of_view(
        self, reads: ViewReads, asked: _Asked, heads: list[Head], items: list[Item]
    ) -> list[int]:
        """Writes the items of hits and misses; the numbers of those that have to be read one
        by one."""
        numbers, keys = asked
        try:
            by_partition = placed(reads, keys)
        except Unavailable:
            by_partition = None
        if by_partition is None:
            return numbers
        left: list[int] = []
        key_json, value_json = reads.key_json, reads.value_json
        found = missed = 0
        for partition, places in by_partition.items():
            theirs = [keys[place] for place in places]
            try:
                held = reads.holder_of(partition, PLAIN)
                # before the look-up: what is applied meanwhile is not in the answer
                headers = reads.state_headers(held)
                position = held.progress.position
                stored = reads.look_up_many(held.store, theirs)
                if None in stored:
                    reads.refuse_doubtful(b"")
            except (StoreClosedError, StoreError):
                left += [numbers[place] for place in places]
                continue
            except (NotOwner, Unavailable):
                continue
            head = len(heads)
            heads.append((200, _lines([*headers, JSON, VARY])))
            if None in stored:
                miss = reads.miss(held, position)
                miss_item = (head + 1, b"", miss.body())
                heads.append((404, _lines([*miss.headers(), *headers])))
            etag = held.etag_format
            for place, key, entry in zip(places, theirs, stored, strict=True):
                if entry is None:
                    items[numbers[place]] = miss_item
                    missed += 1
                    continue
                try:
                    value = value_json(entry[ENTRY_HEAD_SIZE:])
                except Problem:  # of an Avro value whose schema is away
                    continue
                body = DOCUMENT % (key_json(key), value)
                if len(body) < _LARGE:
                    items[numbers[place]] = (head, etag % (entry_offset(entry), b"json"), body)
                    found += 1
        reads.counts.found += found
        reads.counts.missed += missed
        return left


def _lines(headers: list[Header]) -> bytes:
    return b"".join([b"%b: %b\n" % header for header in headers])


def _item(answer: Answer, heads: list[Head]) -> Item:
    """A whole answer; what stands once for all, or is the proxy's to say, is left out."""
    left_out = (b"etag", b"content-length", b"topology-epoch")
    lines = _lines([header for header in answer.headers if header[0] not in left_out])
    etag = next((value for name, value in answer.headers if name == b"etag"), b"")
    heads.append((answer.status, lines))
    return len(heads) - 1, etag, answer.body
