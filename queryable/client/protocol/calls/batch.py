"""The values of many keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from model.limits import MAX_BATCH_BYTES, MAX_JSON_PARTS, json_parts
from queryable.client.protocol.answers import Answer, Unreadable
from queryable.client.protocol.calls.point import get
from queryable.client.protocol.context import MAX_DESCRIBED, ClientContext
from queryable.client.protocol.descriptions import changing
from queryable.client.protocol.errors import ValueUnreadable, error_with_status
from queryable.client.protocol.formats import Raw
from queryable.client.protocol.parameters import Parameters, Stale
from queryable.client.protocol.requests import ApiRequest, json_post
from queryable.client.protocol.responses import decoding, json_of
from queryable.client.protocol.rows import value_from_json
from queryable.client.protocol.transport import Call
from queryable.client.protocol.views import View

MAX_KEYS = 1000


def get_many(
    context: ClientContext,
    view: str,
    keys: Iterable[Any],
    *,
    stale: Stale | None = None,
    timestamps: bool = False,
    timeout: float | None = None,
) -> Call[list[Answer]]:
    """The answers for many keys, in the order of the keys. A value may be Unreadable.
    `timestamps`: the answers have the timestamps of the records.

    A request has up to 1,000 keys, fewer if they are large; `timeout` is for each request. In a
    session the keys are read one by one: the API's batches have no `min_offset`.
    """
    view_info = yield from context.view_to_read(view, context.deadline(timeout))
    key_list = list(keys)
    for _ in range(MAX_DESCRIBED):
        if _needs_point_reads(context, view_info, key_list):
            answers = []
            for key in key_list:
                answers.append((yield from _read_alone(context, view, key, stale, timeout)))
            return answers
        batch_answers, answering = yield from _in_batches(
            context, view, view_info, key_list, stale, timestamps, timeout
        )
        if batch_answers is not None:
            return batch_answers
        view_info = answering
    raise changing(view)


def _in_batches(
    context: ClientContext,
    view: str,
    view_info: View,
    keys: list[Any],
    stale: Stale | None,
    timestamps: bool,
    timeout: float | None,
) -> Call[tuple[list[Answer] | None, View]]:
    """The answers, and the view that answered. The answers are None if that view has another key
    format, and so has read other keys."""
    answers = []
    query = Parameters().add("stale", stale).add("timestamps", "true" if timestamps else None)
    target = query.append_to(f"/views/{view_info.name}/batch")
    encoded = [view_info.key.json_bytes(key) for key in keys]
    for start, end, body in split_into_batches(encoded):
        deadline = context.deadline(timeout)
        # if the body is not valid, the view that answers may have keys of another format
        request_of = partial(_request, target, body)
        response, answering = yield from context.read(view_info, request_of, deadline)
        if answering.key.name != view_info.key.name:
            return None, answering
        document = json_of(response)
        failed = []
        with decoding():
            for key, item in zip(keys[start:end], document["items"], strict=True):
                status = item["status"]
                if status == 200 or "unreadable" in item:
                    value = value_from_json(answering, item)
                    timestamp = item.get("timestamp")
                    answers.append(Answer(response.headers, key, True, value, timestamp=timestamp))
                    continue
                answers.append(Answer(response.headers, key, False))
                if status != 404:
                    failed.append((len(answers) - 1, status, str(item["code"])))
        for index, status, code in failed:
            key = keys[index]
            if status != 503:
                raise error_with_status(status, code, f"View {view} rejects key {key!r}.")
            # a point read waits for this key's partition, and its error has the cause
            answers[index] = yield from _read_alone(context, view, key, stale, timeout)
    return answers, view_info


def _read_alone(
    context: ClientContext, view: str, key: Any, stale: Stale | None, timeout: float | None
) -> Call[Answer]:
    """The answer for a key that is read by a separate request."""
    try:
        return (yield from get(context, view, key, stale=stale, timeout=timeout))
    except ValueUnreadable as error:
        return Answer({}, key, True, Unreadable.from_json(error.more))


def _request(target: str, body: bytes, _: View) -> ApiRequest:
    return json_post(target, body, is_idempotent=True)


def _needs_point_reads(context: ClientContext, view: View, keys: list[Any]) -> bool:
    """Whether a batch cannot express these reads: sessions, raw keys, keys that need a schema."""
    if context.offsets is not None or view.key.codec is None:
        return True
    return any(isinstance(key, Raw) for key in keys)


def split_into_batches(encoded: list[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Splits JSON keys into batches that the API accepts.

    Yields the index of the first key, the index after the last key, and the body.
    """
    for start in range(0, len(encoded), MAX_KEYS):
        yield from _halve_until_small(encoded, start, min(start + MAX_KEYS, len(encoded)))


def _halve_until_small(
    encoded: list[bytes], start: int, end: int
) -> Iterator[tuple[int, int, bytes]]:
    body = b'{"keys":[%b]}' % b",".join(encoded[start:end])
    if end - start == 1 or (len(body) <= MAX_BATCH_BYTES and json_parts(body) <= MAX_JSON_PARTS):
        yield start, end, body
        return
    middle = (start + end) // 2
    yield from _halve_until_small(encoded, start, middle)
    yield from _halve_until_small(encoded, middle, end)
