"""The bytes of the fields of entries, for the keys of indexes."""

from __future__ import annotations

from collections.abc import Sequence

from model.expressions.evaluator import Evaluate, Place, compile_expression
from model.expressions.tree import Field
from model.expressions.types import Kind
from model.formats.schemas import SchemaNotYet
from model.indexes.declaration import DeclaredIndex
from model.indexes.encoding import UNREADABLE, Encode, encoder
from model.problems import Unavailable
from model.records import ENTRY_HEAD_SIZE, is_unreadable
from model.rows.declared_fields import DeclaredField
from model.rows.documents import Documents
from model.rows.row_view import Pair, RowView

_ROW = "row"
_NO_NUMBERS = {Kind.STRING, Kind.BOOLEAN}


class IndexedFields:
    """Reads the fields of indexes from the values of a view, as conditions read them."""

    def __init__(self, view: RowView, indexes: Sequence[DeclaredIndex]) -> None:
        kinds = {field.type.kind for index in indexes for field in index.fields}
        # a number is null as a text or a boolean, whatever it is
        self._documents = Documents(view, long_integers=not kinds <= _NO_NUMBERS)
        quotes_numbers = view.value_codec.quotes_numbers
        self._readers = [
            [_reader(field, quotes_numbers) for field in index.fields] for index in indexes
        ]

    def read(self, pairs: Sequence[Pair]) -> list[list[bytes]]:
        """For each index, the bytes of the fields of each entry. `pairs`: no tombstones. Raises
        Unavailable if a schema is not there, and ValueError."""
        if any(stored[8] >= 0x80 for _, stored in pairs):
            return self._with_unreadable(pairs)
        documents = self._documents.parse([stored[ENTRY_HEAD_SIZE:] for _, stored in pairs])
        return [_columns(readers, documents) for readers in self._readers]

    def read_to_write(self, pairs: Sequence[Pair], waits: bool = False) -> list[list[bytes]]:
        """As `read`, for the keys of an index: values whose schemas are not there count as
        unreadable, so every look-up reads them. `waits`: raise SchemaNotYet if a schema is being
        fetched."""
        try:
            return self.read(pairs)
        except (Unavailable, ValueError) as e:
            if waits and isinstance(e, SchemaNotYet):
                raise
        if len(pairs) == 1:
            return [[UNREADABLE] for _ in self._readers]
        alone = [self.read_to_write([pair], waits) for pair in pairs]
        return [[fields for [fields] in column] for column in zip(*alone, strict=True)]

    def _with_unreadable(self, pairs: Sequence[Pair]) -> list[list[bytes]]:
        readable = [pair for pair in pairs if not is_unreadable(pair[1])]
        fields = self.read(readable) if readable else [[] for _ in self._readers]
        merged: list[list[bytes]] = []
        for column in fields:
            left = iter(column)
            merged.append(
                [UNREADABLE if is_unreadable(stored) else next(left) for _, stored in pairs]
            )
        return merged


def _reader(field: DeclaredField, quotes_numbers: bool) -> tuple[Evaluate, Encode]:
    place = {field.name: Place(_ROW, field.path, quotes_numbers)}
    type_ = field.type.or_null()
    return compile_expression(Field(field.name, type_), place, [_ROW]), encoder(type_)


def _columns(readers: list[tuple[Evaluate, Encode]], documents: list[object]) -> list[bytes]:
    columns = [[encode(read(d)) for d in documents] for read, encode in readers]
    if len(columns) == 1:
        return columns[0]
    return [b"".join(fields) for fields in zip(*columns, strict=True)]
