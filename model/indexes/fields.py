"""The bytes of the fields of entries, for the keys of indexes.

An entry has one key in an index, or, if a field of the index is a list, one for each element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from model.expressions.evaluator import Evaluate, Place, compile_expression
from model.expressions.tree import Field
from model.expressions.types import Kind
from model.formats.schemas import SchemaNotYet
from model.indexes.declaration import DeclaredIndex
from model.indexes.encoding import (
    MANY,
    UNREADABLE,
    Encode,
    EncodeList,
    encoder,
    list_encoder,
)
from model.problems import Unavailable
from model.records import ENTRY_HEAD_SIZE, is_unreadable
from model.rows.declared_fields import DeclaredField
from model.rows.documents import Documents
from model.rows.row_view import Pair, RowView

MAX_BYTES = 16 << 10
"""Of the keys that an index has for an entry because of a list; with more, the list is `MANY`."""
_ROW = "row"
_NO_NUMBERS = {Kind.STRING, Kind.BOOLEAN, Kind.STRINGS}


class Column(NamedTuple):
    """The keys that an index has for some entries. `fields`: their fields. `entries`: for each, the
    number of its entry."""

    fields: list[bytes]
    entries: Sequence[int]


class IndexedFields:
    """Reads the fields of indexes from the values of a view, as conditions read them."""

    def __init__(self, view: RowView, indexes: Sequence[DeclaredIndex]) -> None:
        kinds = {field.type.kind for index in indexes for field in index.fields}
        # a number is null as a text or a boolean, whatever it is
        self._documents = Documents(view, long_integers=not kinds <= _NO_NUMBERS)
        quotes_numbers = view.value_codec.quotes_numbers
        self._readers = [_Reader(index, quotes_numbers) for index in indexes]

    def read(self, pairs: Sequence[Pair]) -> list[Column]:
        """The column of each index. `pairs`: no tombstones. Raises Unavailable if a schema is not
        there, and ValueError."""
        if any(stored[8] >= 0x80 for _, stored in pairs):
            return self._with_unreadable(pairs)
        documents = self._documents.parse([stored[ENTRY_HEAD_SIZE:] for _, stored in pairs])
        return [reader.read(pairs, documents) for reader in self._readers]

    def read_to_write(self, pairs: Sequence[Pair], waits: bool = False) -> list[Column]:
        """As `read`, for the keys of an index: values whose schemas are not there count as
        unreadable, so every look-up reads them. `waits`: raise SchemaNotYet if a schema is being
        fetched."""
        try:
            return self.read(pairs)
        except (Unavailable, ValueError) as e:
            if waits and isinstance(e, SchemaNotYet):
                raise
        if len(pairs) == 1:
            return [Column([UNREADABLE], [0]) for _ in self._readers]
        alone = [self.read_to_write([pair], waits) for pair in pairs]
        return [_joined(enumerate(columns)) for columns in zip(*alone, strict=True)]

    def _with_unreadable(self, pairs: Sequence[Pair]) -> list[Column]:
        readable: list[int] = []
        unreadable: list[int] = []
        for number, (_, stored) in enumerate(pairs):
            (unreadable if is_unreadable(stored) else readable).append(number)
        rest = Column([UNREADABLE] * len(unreadable), unreadable)
        if not readable:
            return [rest for _ in self._readers]
        columns = self.read([pairs[number] for number in readable])
        return [
            Column(column.fields + rest.fields, [readable[n] for n in column.entries] + unreadable)
            for column in columns
        ]


class _Reader:
    """Reads the fields of one index."""

    def __init__(self, index: DeclaredIndex, quotes_numbers: bool) -> None:
        at = index.list_at
        before = index.fields[:at]  # all, if there is no list
        self._before = [_reader(field, quotes_numbers) for field in before]
        self._list = None if at is None else _list_reader(index.fields[at], quotes_numbers)
        behind = index.fields[len(before) + 1 :]
        self._behind = [_reader(field, quotes_numbers) for field in behind]

    def read(self, pairs: Sequence[Pair], documents: list[object]) -> Column:
        before = _columns(self._before, documents)
        if self._list is None:
            return Column(before, range(len(pairs)))
        read, encode = self._list
        lists = [encode(read(document)) for document in documents]
        behind = _columns(self._behind, documents)
        sizes = [len(key) for key, _ in pairs]
        several = list(map(_with_elements, sizes, before, lists, behind))
        entries = [number for number, keys in enumerate(several) for _ in keys]
        return Column([fields for keys in several for fields in keys], entries)


def _joined(columns: Iterable[tuple[int, Column]]) -> Column:
    """The columns of single entries, which have these numbers."""
    keys = [(fields, number) for number, column in columns for fields in column.fields]
    return Column([fields for fields, _ in keys], [number for _, number in keys])


def _reader(field: DeclaredField, quotes_numbers: bool) -> tuple[Evaluate, Encode]:
    return _evaluator(field, quotes_numbers), encoder(field.type)


def _list_reader(field: DeclaredField, quotes_numbers: bool) -> tuple[Evaluate, EncodeList]:
    return _evaluator(field, quotes_numbers), list_encoder(field.type)


def _evaluator(field: DeclaredField, quotes_numbers: bool) -> Evaluate:
    place = {field.name: Place(_ROW, field.path, quotes_numbers)}
    return compile_expression(Field(field.name, field.type.or_null()), place, [_ROW])


def _columns(readers: list[tuple[Evaluate, Encode]], documents: list[object]) -> list[bytes]:
    """The bytes of some fields of each document."""
    columns = [[encode(read(d)) for d in documents] for read, encode in readers]
    if len(columns) == 1:
        return columns[0]
    if not columns:
        return [b""] * len(documents)
    return [b"".join(fields) for fields in zip(*columns, strict=True)]


def _with_elements(
    key_size: int, before: bytes, elements: tuple[bytes, ...], behind: bytes
) -> list[bytes]:
    """The fields of the keys of an entry, with an element between those before and behind it."""
    others = key_size + len(before) + len(behind)
    if len(elements) > 1 and others * len(elements) + sum(map(len, elements)) > MAX_BYTES:
        elements = (MANY,)
    return [before + element + behind for element in elements]
