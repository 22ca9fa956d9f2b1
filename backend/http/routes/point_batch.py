"""Coalesced point reads from the proxy: `POST /internal/reads`.

Each read gets the same answer as on its own. A read that has to wait, is refused, or belongs to
another instance gets none, and the proxy sends it separately. The cost of a read here decides the
proxy's throughput: keys are resolved together, shared headers are written once, and a token is
looked up once for its reads of a view.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from time import thread_time
from typing import NamedTuple

from backend.http.access import AccessControl
from backend.http.paths import Paths
from backend.http.request import Request
from backend.http.responses import KeyResponses
from backend.instance_context import InstanceContext
from backend.queries.point import Resolved, Unresolved
from backend.queries.turns import STEP_S, next_turn
from backend.telemetry.latencies import KEY, TurnReads
from backend.wire.answer import Answer, Header, problem_answer
from backend.wire.plain_requests import MAX_BYTES, are_plain, is_plain, is_token
from backend.wire.point_batch import (
    ASK_ALONE,
    MAX_LINES,
    Head,
    Item,
    ReadsOfToken,
    decode_reads,
    encode_answers,
)
from model.problems import BadRequest, Problem
from model.records import entry_offset

CONTENT_TYPE: Header = (b"content-type", b"application/octet-stream")

MAX_VERIFICATIONS = 8
"""The maximum number of tokens that are verified for one request. Verifying one takes up to 0.2 ms,
and all reads of the request wait. Reads with further unknown tokens are sent separately."""

_MANY = 128  # reads, one by one: 4 ms
_PIECE = 16  # of these, between two looks at the clock
_LARGE = 65_536  # bytes of an answer that is sent separately


class _ReadsOfView(NamedTuple):
    """Texts of keys of one view, and the numbers of their reads."""

    numbers: list[int]
    texts: list[bytes]


_ByView = defaultdict[KeyResponses, _ReadsOfView]


class PointBatchRoute:
    """Answers many point reads at once."""

    def __init__(
        self,
        context: InstanceContext,
        paths: Paths,
        responses: Mapping[str, KeyResponses],
        answer_now: Callable[[bytes, bytes | None], Answer | None],
        access: AccessControl,
        turn: TurnReads,
    ) -> None:
        """`answer_now(raw_path, token)`: the answer to a single read, or None if it has to wait."""
        self._context = context
        self._turn = turn
        self._answer_now = answer_now
        self._access = access
        self._responses = responses
        self.use(paths)

    def use(self, paths: Paths) -> None:
        """Other versions of views are current. Called in any thread."""
        of_view = self._responses
        self._by_prefix = {prefix: of_view[view.name] for prefix, view in paths.prefixes.items()}

    async def reads(self, request: Request) -> Answer:
        """In steps, for requests that were not answered on arrival."""
        steps, began = self._answering(request.body), thread_time()
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                answer: Answer = ended.value
                return answer
            if thread_time() - began >= STEP_S:
                await next_turn()
                began = thread_time()

    def takes_long(self, body: bytes) -> bool:
        """Whether others should not wait for all of the reads: many must be read one by one."""
        return len(body) > _MANY and body.count(b"%") > _MANY and body.count(b"\n") > _MANY

    def answer(self, body: bytes) -> Answer:
        """The framed answers to framed reads; 400 if there are too many."""
        steps = self._answering(body)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                answer: Answer = ended.value
                return answer

    def _answering(self, body: bytes) -> Generator[None, None, Answer]:
        """Returns the answer. Yields after some of the reads that are answered one by one. The
        others are counted with the turn's duration."""
        self._turn.begin()
        try:
            groups = decode_reads(body)
        except ValueError:
            detail = f"At most {MAX_LINES} lines are allowed in one request."
            return problem_answer(BadRequest("too-many-keys", detail))
        if self._access.is_on:
            self._verify_tokens(groups)
        paths: list[bytes] = []
        tokens: list[bytes | None] = []
        by_view: _ByView = defaultdict(lambda: _ReadsOfView([], []))
        one_by_one: list[int] = []
        has_plain_bytes = are_plain(body)
        for token, of_token in groups:
            self._sort(token, of_token, len(paths), has_plain_bytes, by_view, one_by_one)
            paths += of_token
            tokens += [token] * len(of_token)
        heads: list[Head] = []
        items = [ASK_ALONE] * len(paths)
        for responses, (numbers, texts) in by_view.items():
            try:
                keys = responses.reads.parse_keys(texts)
            except Problem:
                one_by_one += numbers
                continue
            for found in responses.reads.resolve(keys):
                if not isinstance(found, Unresolved):
                    hits, misses = _write(responses, found, numbers, keys, heads, items)
                    name, role = responses.view.name, found.state.store_partition.role
                    self._turn.note((KEY, name, role, 200), hits)
                    self._turn.note((KEY, name, role, 404), misses)
        for count, number in enumerate(one_by_one, 1):
            if count % _PIECE == 0:
                yield
            answer = self._answer_now(paths[number], tokens[number])
            if answer is not None and len(answer.body) < _LARGE:
                items[number] = _item(answer, heads)
        framed = encode_answers(self._context.epoch_header, heads, items)
        return Answer(200, [CONTENT_TYPE], framed)

    def _sort(
        self,
        token: bytes | None,
        paths: Sequence[bytes],
        first: int,
        has_plain_bytes: bool,
        by_view: _ByView,
        one_by_one: list[int],
    ) -> None:
        """Adds the reads of a token to those of their views, if the token may read them. Adds those
        that must be parsed to `one_by_one`. `first`: the number of the first read."""
        by_prefix, readable = self._by_prefix, None
        are_all_plain = has_plain_bytes and max(map(len, paths), default=0) <= MAX_BYTES
        for number, path in enumerate(paths, first):
            # paths that an HTTP parser might refuse or read differently need the parser
            if not are_all_plain and not is_plain(path):
                continue
            prefix, _, text = path.rpartition(b"/")
            responses = by_prefix.get(prefix)
            if responses is None or b"%" in text:
                one_by_one.append(number)
                continue
            if responses is not readable:
                if not self._access.may_read_now(token, responses.view.base):
                    continue
                readable = responses
            numbers, texts = by_view[responses]
            numbers.append(number)
            texts.append(text)

    def _verify_tokens(self, groups: Sequence[ReadsOfToken]) -> None:
        """Verifies tokens that are not known. Those that are refused, or whose keys are being
        fetched, stay unknown."""
        access = self._access
        unknown = (token for token, _ in groups if token is not None and not access.is_known(token))
        for token in islice(unknown, MAX_VERIFICATIONS):
            if is_token(token):
                with suppress(Problem):
                    access.verify(token)


def _write(
    responses: KeyResponses,
    found: Resolved,
    numbers: list[int],
    keys: list[bytes],
    heads: list[Head],
    items: list[Item],
) -> tuple[int, int]:
    """Adds the items of the keys of one store partition, and their shared heads. Returns how many
    keys were found, and how many were missing."""
    indexes, state, entries = found
    headers = responses.state_headers(state)
    head = len(heads)
    heads.append((200, _lines([*headers, *responses.form])))
    if None in entries:
        miss = responses.reads.missing(state)
        miss_item = (head + 1, b"", miss.body())
        heads.append((404, _lines([*miss.headers(), *headers])))
    document, etag_format = responses.document, responses.etag_format(state)
    hits = misses = 0
    for index, entry in zip(indexes, entries, strict=True):
        if entry is None:
            items[numbers[index]] = miss_item
            misses += 1
            continue
        try:
            body = document(keys[index], entry)
        except Problem:  # the schema of the value is missing
            continue
        if len(body) < _LARGE:
            etag = etag_format % (entry_offset(entry), b"json") if etag_format else b""
            items[numbers[index]] = (head, etag, body)
            hits += 1
    responses.reads.counts.found += hits
    responses.reads.counts.missed += misses
    return hits, misses


def _lines(headers: list[Header]) -> bytes:
    return b"".join([b"%b: %b\n" % header for header in headers])


def _item(answer: Answer, heads: list[Head]) -> Item:
    """The item of a complete answer. Its head has no ETag, and no headers that the proxy adds."""
    omitted = (b"etag", b"content-length", b"topology-epoch")
    lines = _lines([header for header in answer.headers if header[0] not in omitted])
    etag = next((value for name, value in answer.headers if name == b"etag"), b"")
    heads.append((answer.status, lines))
    return len(heads) - 1, etag, answer.body
