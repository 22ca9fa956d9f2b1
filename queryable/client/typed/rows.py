"""Rows with the types of a view's keys and values. Times are epoch ms, as in the untyped rows."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TypedEntry(NamedTuple, Generic[K, V]):
    """A row of a scan."""

    key: K
    value: V


class TypedWindow(NamedTuple, Generic[K, V]):
    """`end` is None if the view has no window size."""

    key: K
    start: int
    end: int | None
    sequence: int
    value: V


class TypedSession(NamedTuple, Generic[K, V]):
    key: K
    start: int
    end: int
    value: V


class TypedVersion(NamedTuple, Generic[K, V]):
    """`valid_to` is None if the version is still valid."""

    key: K
    valid_from: int
    valid_to: int | None
    value: V


class TypedChange(NamedTuple, Generic[K, V]):
    """`value` is None if the key was deleted."""

    key: K
    value: V | None
    is_deleted: bool
    partition: int
    offset: int
    version: int | None = None
    push: str | None = None
    timestamp: int | None = None
