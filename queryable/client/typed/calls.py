"""Calls on a view with types. No I/O: both handles run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from queryable.client.protocol.answers import Answer, Appended, Change, Source
from queryable.client.protocol.calls import append, batch, changes, point
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import UnexpectedValue
from queryable.client.protocol.formats import Raw
from queryable.client.protocol.pagination import Pager
from queryable.client.protocol.transport import Call
from queryable.client.typed.conversion import Mismatch, nested_document, reader_of
from queryable.client.typed.rows import K, TypedChange, V

Row = TypeVar("Row", bound=NamedTuple)


class TypedCalls(Generic[K, V]):
    """`key` and `value` are types (`conversion.reader_of`). Raises BadUse for others."""

    def __init__(self, context: ClientContext, name: str, key: Any, value: Any) -> None:
        self.context = context
        self.name = name
        self._read_key = reader_of(key)
        self._read_value = reader_of(value)

    def key(self, key: K) -> Any:
        """The key for an untyped call."""
        return key if isinstance(key, Raw) else nested_document(key)

    def get(self, key: K, **options: Any) -> Call[V | None]:
        answer: Answer = yield from point.get(self.context, self.name, self.key(key), **options)
        return self._value(answer.key, answer.value) if answer.found else None

    def get_many(self, keys: Iterable[K], **options: Any) -> Call[dict[K, V]]:
        wanted = list(keys)
        answers: list[Answer] = yield from batch.get_many(
            self.context, self.name, map(self.key, wanted), **options
        )
        return {
            key: self._value(answer.key, answer.value)
            for key, answer in zip(wanted, answers, strict=True)
            if answer.found
        }

    def append(self, key: K, value: V, timeout: float | None) -> Call[Appended]:
        return append.append(
            self.context, self.name, self.key(key), nested_document(value), timeout=timeout
        )

    def delete(self, key: K, timeout: float | None) -> Call[Appended]:
        return append.append(self.context, self.name, self.key(key), timeout=timeout)

    def rows(
        self, call: Callable[..., Call[Pager[Any]]], row: Any, *args: Any, **options: Any
    ) -> Callable[[], Call[Pager[Any]]]:
        """A function that starts the call; its rows have the type `row`."""

        def start() -> Call[Pager[Any]]:
            pager: Pager[Any] = yield from call(self.context, self.name, *args, **options)
            return _TypedPager(pager, lambda each: self._row(row, each))

        return start

    def changes(
        self, key: K, after: tuple[int, int] | TypedChange[K, V] | None, patience: float
    ) -> Callable[[], Call[Pager[Any]]]:
        last = self._untyped(after) if isinstance(after, TypedChange) else after
        return self.rows(changes.changes, TypedChange, self.key(key), after=last, patience=patience)

    def _untyped(self, change: TypedChange[K, V]) -> Change:
        """The change as it was before its conversion, to be compared with others."""
        value = None if change.is_deleted else nested_document(change.value)
        return Change(self.key(change.key), value, *change[2:])

    def _row(self, kind: Any, row: Any) -> Any:
        key = self._key(row.key)
        deleted = getattr(row, "is_deleted", False)
        value = None if deleted else self._value(row.key, row.value)
        return kind(**{**row._asdict(), "key": key, "value": value})

    def _key(self, key: Any) -> K:
        try:
            converted: K = self._read_key(key)
        except Mismatch as mismatch:
            raise UnexpectedValue(f"View {self.name}, key {key!r}: {mismatch}.") from None
        return converted

    def _value(self, key: Any, value: Any) -> V:
        try:
            converted: V = self._read_value(value)
        except Mismatch as mismatch:
            raise UnexpectedValue(f"View {self.name}, value of key {key!r}: {mismatch}.") from None
        return converted


class _TypedPager:
    """A Pager whose rows are converted."""

    def __init__(self, pager: Pager[Any], convert: Callable[[Any], Any]) -> None:
        self.source: Source | None = None
        self._pager = pager
        self._convert = convert

    def next(self) -> Call[list[Any] | None]:
        page = yield from self._pager.next()
        self.source = self._pager.source
        return None if page is None else [self._convert(row) for row in page]

    def close(self) -> Call[None]:
        return self._pager.close()
