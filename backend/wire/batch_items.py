"""The items of a batch, as JSON."""

from __future__ import annotations

from collections.abc import Callable

from model.formats.json_encoder import encode_json
from model.problems import Problem
from model.records import ENTRY_HEAD_SIZE, with_timestamp
from model.rows.unreadable import ValueUnreadable

MISSING = b',"status":404}'
"""The end of the item of a missing key."""


def item_of(
    key_json: bytes,
    entry: bytes | None,
    value_json: Callable[[bytes], bytes],
    timestamps: bool,
) -> bytes:
    """The item of a key. `entry`: None if the key is missing."""
    if entry is None:
        return b'{"key":%b%b' % (key_json, MISSING)
    item = b'{"key":%b,"status":200,"value":%b}' % (key_json, value_json(entry[ENTRY_HEAD_SIZE:]))
    return with_timestamp(item, entry) if timestamps else item


def problem_item(key_json: bytes, problem: Problem) -> bytes:
    item = b'{"key":%b,"status":%d,"code":"%b"' % (key_json, problem.status, problem.code.encode())
    if isinstance(problem, ValueUnreadable):
        return b'%b,"unreadable":%b}' % (item, encode_json(problem.unreadable.document()))
    return item + b"}"
