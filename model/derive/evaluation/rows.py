"""From records to the rows that a derived view counts, and the dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from model.derive.derivation import TEXT, Derivation, EventTime, Join
from model.derive.evaluation.records import Record, with_offsets
from model.derive.fields import Paths
from model.expressions.evaluator import Evaluate, compile_expression
from model.expressions.tree import Expression, Field, fields_of
from model.expressions.types import Kind, Objects, Type
from model.formats.json import JsonCodec
from model.formats.json_decoder import decode_json
from model.keys.codec import KeyFields
from model.rows.json_fields import JsonField, fields_reader, member_at
from model.rows.reader import RowRule
from model.rows.row import NoRow

MAX_KEY_BYTES = 10_000
MAX_TEXT_BYTES = 1000
"""The limit of a text in a joined table."""
_SECOND = 1_000_000
_FIRST, _END = 31_536_000 * _SECOND, 9_183_110_400 * _SECOND
"""The first allowed event time and the end, 1971 to 2260, in µs since 1970."""

DELETED = "#deleted"  # not the name of a field

Row = dict[str, Any]
"""The fields of a row, with values as JSON has them."""
Rows = Mapping[str, Row]
"""A joined table: key ► its row."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that does not count, and why. ``number``: its place among the records, from 1.
    ``table``: the name of the joined table; None for the records of ``from``."""

    number: int
    record: Record
    reason: str
    table: str | None = None


class Deleted(ValueError):
    """The value deletes the row of its key. It is not a dead letter."""


class NoRowHere(ValueError):
    """The value has no row, and is not a dead letter."""


class Compiled:
    """Evaluates expressions, each compiled once."""

    def __init__(self) -> None:
        self._functions: dict[Expression, Evaluate] = {}

    def value(self, expression: Expression, row: Row) -> Any:
        if expression not in self._functions:
            self._functions[expression] = compile_expression(expression)
        return self._functions[expression](row)

    def is_true(self, condition: Expression | None, row: Row) -> bool:
        return condition is None or self.value(condition, row) is True


def value_reader(
    fields: Iterable[tuple[str, Type]], rule: RowRule | None, paths: Paths
) -> Callable[[bytes], Row]:
    """A function from a value to its declared fields. Raises ValueError with the reason, or
    Deleted or NoRowHere."""
    by_name = dict(paths)
    declared = [JsonField(name, type_, by_name.get(name, (name,))) for name, type_ in fields]
    check = fields_reader(declared)
    row_of = None if rule is None else rule.json_reader()

    def read(value: bytes) -> Row:
        if row_of is not None:
            try:
                row = row_of(value)
            except ValueError as error:
                raise ValueError(f"value: {error}") from None
            if row is None:
                raise Deleted
            if isinstance(row, NoRow):
                raise NoRowHere
            value = row
        check(value)
        document = decode_json(value)
        return {field.name: member_at(document, field.path) for field in declared}

    return read


def key_reader(fields: tuple[str, ...]) -> Callable[[bytes], str]:
    """A function from a key to its text. ``fields``: those of keys that are documents; none if keys
    are text. Raises ValueError with the reason."""
    documents = KeyFields(JsonCodec(), fields) if fields else None

    def read(key: bytes) -> str:
        if documents is None:
            return _text(key, "key")
        try:
            return documents.derived_text(key)
        except ValueError as error:
            raise ValueError(f"key: {error}") from None

    return read


def joined_rows(join: Join, records: Iterable[Record]) -> tuple[dict[str, Row], list[DeadLetter]]:
    """The newest row of each key, and the dead letters of the table; none if it is static."""
    read = value_reader(join.fields, join.rows, join.paths)
    read_key = key_reader(join.key_fields)
    texts = [name for name, type_ in join.fields if type_.kind is Kind.STRING]
    newest: dict[str, tuple[tuple[int, int], Row | None]] = {}
    dead_letters = []
    for number, (record, offset) in enumerate(with_offsets(records), 1):
        at = record.partition, offset
        try:
            key, row = _keyed_row(record, read_key, read)
            for name in texts:
                text = None if row is None else row[name]
                if isinstance(text, str) and len(text.encode()) > MAX_TEXT_BYTES:
                    raise ValueError(f"{name}: more than {MAX_TEXT_BYTES} bytes")
        except NoRowHere:
            continue
        except ValueError as error:
            dead_letters.append(DeadLetter(number, record, str(error), join.name))
            continue
        if key not in newest or newest[key][0] < at:
            newest[key] = at, row
    rows = {key: row for key, (_, row) in newest.items() if row is not None}
    return rows, [] if join.static else dead_letters


def _keyed_row(
    record: Record, read_key: Callable[[bytes], str], read: Callable[[bytes], Row]
) -> tuple[str, Row | None]:
    """The key and the row of a record, None if the record deletes it. Raises NoRowHere, or
    ValueError, for the key first."""
    try:
        row = None if record.value is None else read(record.value)
    except NoRowHere:
        raise
    except Deleted:
        row = None
    except ValueError:
        _present(record.key, read_key)
        raise
    return _present(record.key, read_key), row


def _present(key: bytes | None, read: Callable[[bytes], str]) -> str:
    if key is None:
        raise ValueError("key: null")
    return read(key)


def _text(content: bytes | None, what: str) -> str:
    if content is None:
        raise ValueError(f"{what}: null")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what}: not UTF-8") from None


class RowSource:
    """Makes the rows of a view from records. ``tables``: the rows of each join, by its name."""

    def __init__(self, derivation: Derivation, tables: Mapping[str, Rows]) -> None:
        self._derivation = derivation
        self._tables = tables
        self.compiled = Compiled()
        self._read = value_reader(derivation.fields, derivation.rows, derivation.paths)
        self._read_key = key_reader(derivation.key_fields)
        rule = derivation.rows
        self._has_deletions = rule is not None and rule.has_deletions
        self._seen: set[tuple[Any, ...]] = set()

    def rows(self, records: Iterable[Record]) -> Iterator[Row | DeadLetter]:
        """The rows that count, and the dead letters, in the order of the records. For a table,
        also the deleted rows, which have the member ``DELETED``."""
        for number, (record, offset) in enumerate(with_offsets(records), 1):
            try:
                row = self._with_key(record, offset)
                self._check(row)
            except NoRowHere:
                continue
            except ValueError as error:
                yield DeadLetter(number, record, str(error))
                continue
            if DELETED not in row:
                yield from self._counted(row)
            elif self._derivation.is_table:
                yield row

    def _with_key(self, record: Record, offset: int) -> Row:
        """As ``_decoded``. Raises ValueError also if the key is not usable, for the key first."""
        try:
            row = self._decoded(record, offset)
        except NoRowHere:
            raise
        except ValueError:
            self._check_record_key(record)
            raise
        self._check_record_key(record)
        return row

    def _check_record_key(self, record: Record) -> None:
        """Raise ValueError if the record needs another key."""
        derivation = self._derivation
        if derivation.is_table or (derivation.key_fields and record.key is not None):
            _present(record.key, self._read_key)

    def _decoded(self, record: Record, offset: int) -> Row:
        derivation = self._derivation
        given = self._record_fields(record, offset)
        try:
            if record.value is None and (derivation.is_table or self._has_deletions):
                raise Deleted
            if not derivation.fields:
                row: Row = {TEXT: _text(record.value, "value")}
            elif record.value is None:
                raise ValueError("value: null")
            else:
                row = self._read(record.value)
        except Deleted:
            return {**given, DELETED: True}
        row |= given
        if self._time_is_declared:
            self._check_time(row)  # also of records that do not count
        return row

    def _record_fields(self, record: Record, offset: int) -> Row:
        try:
            key = None if record.key is None else self._read_key(record.key)
        except ValueError:
            key = None
        return {
            "record_key": key,
            "record_timestamp": record.timestamp * 1000,
            "record_partition": record.partition,
            "record_offset": offset,
        }

    @property
    def _time_is_declared(self) -> bool:
        time = self._derivation.time
        return time is not None and time.field in {name for name, _ in self._derivation.fields}

    def _check_time(self, row: Row) -> None:
        time = self._derivation.time
        assert time is not None
        at = self.compiled.value(time.expression, row)
        reason = None if at is None else _violation(time, at, row["record_timestamp"])
        if reason is not None:
            raise ValueError(reason)

    def _check(self, row: Row) -> None:
        """Raise ValueError if the record is a dead letter."""
        derivation, compiled = self._derivation, self.compiled
        if derivation.is_table and (DELETED not in row or derivation.is_map):
            self._check_key(row)
        if DELETED in row:
            return
        if not compiled.is_true(derivation.require, row):
            raise ValueError("require: not true")
        if derivation.time is not None and not self._time_is_declared and self._may_count(row):
            self._check_time(row)
        for repeated in self._repeated(row):
            if self._may_count(repeated):
                self._check_key(repeated)

    def _may_count(self, row: Row) -> bool:
        """Whether ``where`` is true, or needs a field that is not known yet."""
        condition = self._derivation.where
        if condition is None or not fields_of(condition) <= row.keys():
            return True
        return self.compiled.is_true(condition, row)

    def _check_key(self, row: Row) -> None:
        key = self._derivation.key
        if not any(part.type.kind is Kind.STRING for part in key):
            return
        if any(not fields_of(part) <= row.keys() for part in key):
            return  # a field of a joined table, which is short
        parts = self.key_parts(row)
        if len(self._joined_key(parts).encode()) > MAX_KEY_BYTES:
            raise ValueError(f"key: more than {MAX_KEY_BYTES} bytes")
        separator = self._derivation.separator
        if len(parts) > 1 and any(separator in part for part in parts):
            raise ValueError(f"key: a part has the separator {separator}")

    def key_parts(self, row: Row) -> list[str]:
        return [str(self.compiled.value(part, row)) for part in self._derivation.key]

    def _joined_key(self, parts: list[str]) -> str:
        return self._derivation.separator.join(parts)

    def key(self, row: Row) -> str | int:
        """The key of a row: text, or a whole number."""
        if len(self._derivation.key) == 1:
            key: str | int = self.compiled.value(self._derivation.key[0], row)
            return key
        return self._joined_key(self.key_parts(row))

    def _repeated(self, row: Row) -> Iterator[Row]:
        """The rows that ``each`` makes of the record."""
        if self._derivation.each is None:
            yield row
            return
        name, array = self._derivation.each
        if isinstance(array.type, Objects):
            assert isinstance(array, Field)
            for element in row[array.name] or ():
                members = {
                    f"{name}.{member}": element.get(member) for member, _ in array.type.members
                }
                yield {**row, **members}
            return
        for element in self.compiled.value(array, row) or ():
            yield {**row, name: element}

    def _counted(self, row: Row) -> Iterator[Row]:
        derivation, compiled = self._derivation, self.compiled
        if derivation.is_table:
            yield self.joined(row, (join for join in derivation.joins if join.static))
            return
        if derivation.filters_records and not compiled.is_true(derivation.where, row):
            return
        if derivation.identity:
            types = dict(derivation.fields)
            identity = tuple(
                compiled.value(Field(name, types[name]), row) if name in types else row[name]
                for name in derivation.identity
            )
            if identity in self._seen:
                return
            self._seen.add(identity)
        row = self.joined(row, (join for join in derivation.joins if join.static))
        for repeated in self._repeated(row):
            if derivation.where_is_last or compiled.is_true(derivation.where, repeated):
                yield repeated

    def joined(self, row: Row, joins: Iterable[Join]) -> Row:
        """The row with the fields of its rows in the tables of these joins."""
        joined = {**row}
        for join in joins:
            key = self.compiled.value(join.on, row)
            table_row = {} if key is None else self._tables[join.name].get(str(key), {})
            joined |= {f"{join.name}.{name}": table_row.get(name) for name, _ in join.fields}
        return joined


def _violation(time: EventTime, at: int, timestamp: int) -> str | None:
    """Why the record is late or early, in the words of ``spark.event_time.bounds``; None if it is
    neither. Times are in µs."""
    name = time.field or "time"
    before, after = time.before_s, time.after_s
    if before is not None and timestamp - at > before * _SECOND:
        return f"{name}: late: more than {before} s before the record's timestamp"
    if at - timestamp > (after or 0) * _SECOND:
        return f"{name}: more than {after} s after the record's timestamp"
    return None if _FIRST <= at < _END else f"{name}: not within 1971 to 2260"


def json_bytes(values: Mapping[str, Any]) -> int:
    """The length of the values as JSON."""
    return len(json.dumps(values, ensure_ascii=False, default=str).encode())
