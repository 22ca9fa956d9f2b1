"""Calls on a view with types. No I/O: both handles run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from queryable.client.protocol.answers import Answer, Appended, Change, Source, Unreadable
from queryable.client.protocol.calls import append, batch, changes, point
from queryable.client.protocol.context import ClientContext
from queryable.client.protocol.errors import BadUse, UnexpectedValue, ValueUnreadable
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
        for key in wanted:
            _check_hashable(key)
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
        return lambda: self._start(call, row, None, *args, **options)

    def _start(
        self, call: Callable[..., Call[Pager[Any]]], row: Any, seen: Any, *args: Any, **options: Any
    ) -> Call[Pager[Any]]:
        pager: Pager[Any] = yield from call(self.context, self.name, *args, **options)
        is_seen = None if seen is None else lambda each: self._untyped(each) == seen
        return _TypedPager(pager, lambda each: self._row(row, each), is_seen)

    def changes(
        self, key: K, after: tuple[int, int] | TypedChange[K, V] | None, patience: float
    ) -> Callable[[], Call[Pager[Any]]]:
        seen = self._untyped(after) if isinstance(after, TypedChange) else None
        last = after if seen is None else seen
        options = {"after": last, "patience": patience}
        return lambda: self._start(changes.changes, TypedChange, seen, self.key(key), **options)

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
        if isinstance(value, Unreadable):
            said = f"The value of key {key!r} of view {self.name} cannot be read: {value.reason}."
            raise ValueUnreadable("value-unreadable", said, **value.to_json())
        try:
            converted: V = self._read_value(value)
        except Mismatch as mismatch:
            raise UnexpectedValue(f"View {self.name}, value of key {key!r}: {mismatch}.") from None
        return converted


def _check_hashable(key: Any) -> None:
    try:
        hash(key)
    except TypeError:
        raise BadUse(
            f"get_many returns a dict, which cannot have the key {key!r}. Use a type that can be "
            "one, such as a frozen dataclass."
        ) from None


class _TypedPager:
    """A Pager whose rows are converted. The first row is left out if the caller has already seen
    it. The untyped call cannot know this, because a conversion may lose fields."""

    def __init__(
        self,
        pager: Pager[Any],
        convert: Callable[[Any], Any],
        is_seen: Callable[[Any], bool] | None,
    ) -> None:
        self.source: Source | None = None
        self._pager = pager
        self._convert = convert
        self._is_seen = is_seen

    def next(self) -> Call[list[Any] | None]:
        while (page := (yield from self._pager.next())) is not None:
            self.source = self._pager.source
            rows = [self._convert(row) for row in page]
            is_seen, self._is_seen = self._is_seen, None
            if is_seen is None or not rows or not is_seen(rows[0]):
                return rows
            if rows[1:]:
                return rows[1:]
        return None

    def close(self) -> Call[None]:
        return self._pager.close()
