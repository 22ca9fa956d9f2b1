"""What a topic of changes is about: see `change_log`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from model.changes.records import S


@dataclass(frozen=True)
class Subject(Generic[S]):
    """What a topic of changes is about. Texts are parts of messages."""

    topic: str
    encode: Callable[[str, S, int], bytes]
    """`encode(name, state, at_ms)`: the value of a record."""
    decode: Callable[[bytes | str | None], tuple[str, S]]
    """The inverse of `encode`; raises ValueError."""
    noun: str
    """The name of the thread and the client, such as "versions"."""
    unknown: str
    """The problem's code if the topic cannot be read."""
    conflict: str
    """The problem's code if another change came first."""
    unconfirmed: str
    """The problem's code if Kafka has not confirmed a change."""
    decides: str
    """What the topic decides, such as "which version of a view is current"."""
    name_of: Callable[[str], str]
    """`name_of(name)`: the text for what changes, such as "the versions of view orders"."""
