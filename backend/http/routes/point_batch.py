"""Coalesced point reads from the proxy: `POST /internal/reads`.

Each read gets the same answer as on its own. A read that has to wait, is refused, or belongs to
another instance gets none, and the proxy sends it separately. The cost of a read here decides the
proxy's throughput: keys are resolved together, and shared headers are written once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from backend.http.paths import Paths
from backend.http.request import Request
from backend.http.responses import KeyResponses
from backend.instance_context import InstanceContext
from backend.queries.point import Resolved, Unresolved
from backend.wire.answer import Answer, Header, problem_answer
from backend.wire.plain_requests import MAX_BYTES, are_plain, is_plain
from backend.wire.point_batch import (
    ASK_ALONE,
    MAX_READS,
    Head,
    Item,
    decode_paths,
    encode_answers,
)
from model.problems import BadRequest, Problem
from model.records import entry_offset

CONTENT_TYPE: Header = (b"content-type", b"application/octet-stream")

_LARGE = 65_536  # bytes of an answer that is sent separately


class _ReadsOfView(NamedTuple):
    """Texts of keys of one view, and the numbers of their reads."""

    numbers: list[int]
    texts: list[bytes]


class PointBatchRoute:
    """Answers many point reads at once."""

    def __init__(
        self,
        context: InstanceContext,
        paths: Paths,
        responses: Mapping[str, KeyResponses],
        answer_now: Callable[[bytes], Answer | None],
    ) -> None:
        """`answer_now(raw_path)`: the answer to a single read, or None if it has to wait."""
        self._context = context
        self._answer_now = answer_now
        self._by_prefix = {prefix: responses[view.name] for prefix, view in paths.prefixes.items()}

    async def reads(self, request: Request) -> Answer:
        """For requests that the worker has not recognised on arrival."""
        return self.answer(request.body)

    def answer(self, body: bytes) -> Answer:
        """The framed answers to framed paths; 400 if there are too many."""
        try:
            paths = decode_paths(body)
        except ValueError:
            detail = f"At most {MAX_READS} reads are allowed in one request."
            return problem_answer(BadRequest("too-many-keys", detail))
        heads: list[Head] = []
        items = [ASK_ALONE] * len(paths)
        by_view: defaultdict[KeyResponses, _ReadsOfView] = defaultdict(lambda: _ReadsOfView([], []))
        one_by_one: list[int] = []
        by_prefix = self._by_prefix
        are_all_plain = are_plain(body) and max(map(len, paths)) <= MAX_BYTES
        for number, path in enumerate(paths):
            # paths that an HTTP parser might refuse or read differently need the parser
            if not are_all_plain and not is_plain(path):
                continue
            prefix, _, text = path.rpartition(b"/")
            responses = by_prefix.get(prefix)
            if responses is None or b"%" in text:
                one_by_one.append(number)
                continue
            numbers, texts = by_view[responses]
            numbers.append(number)
            texts.append(text)
        for responses, (numbers, texts) in by_view.items():
            try:
                keys = responses.reads.parse_keys(texts)
            except Problem:
                one_by_one += numbers
                continue
            for found in responses.reads.resolve(keys):
                if not isinstance(found, Unresolved):
                    _write(responses, found, numbers, keys, heads, items)
        for number in one_by_one:
            answer = self._answer_now(paths[number])
            if answer is not None and len(answer.body) < _LARGE:
                items[number] = _item(answer, heads)
        framed = encode_answers(self._context.epoch_header, heads, items)
        return Answer(200, [CONTENT_TYPE], framed)


def _write(
    responses: KeyResponses,
    found: Resolved,
    numbers: list[int],
    keys: list[bytes],
    heads: list[Head],
    items: list[Item],
) -> None:
    """Adds the items of the keys of one store partition, and their shared heads."""
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


def _lines(headers: list[Header]) -> bytes:
    return b"".join([b"%b: %b\n" % header for header in headers])


def _item(answer: Answer, heads: list[Head]) -> Item:
    """The item of a complete answer. Its head has no ETag, and no headers that the proxy adds."""
    omitted = (b"etag", b"content-length", b"topology-epoch")
    lines = _lines([header for header in answer.headers if header[0] not in omitted])
    etag = next((value for name, value in answer.headers if name == b"etag"), b"")
    heads.append((answer.status, lines))
    return len(heads) - 1, etag, answer.body
