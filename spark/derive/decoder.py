"""The decoder of a derived view: which records count, and why the others are dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from model.derive.derivation import RECORD_FIELDS, TEXT, Derivation
from model.expressions.tree import Expression, fields_of
from model.expressions.types import LISTS, Kind, Objects
from spark.derive.columns import Columns, column, condition, key_column, key_parts
from spark.derive.json_values import DELETED as IS_DELETION
from spark.derive.json_values import NO_ROW, NOT_REJECTED
from spark.derive.schema_values import declared_values
from spark.event_time.bounds import EventTimeBounds
from spark.event_time.columns import violations
from spark.formats.batches import FIELDS, KEY_REASON, KEY_TEXT, REASON
from spark.formats.columns import not_text
from spark.formats.strict_json import spark_type

MAX_KEY_BYTES = 10_000
"""A longer key does not fit in a URL."""
MAX_VALUE_BYTES = 500_000
"""The limit of a value that has text, because Kafka rejects records of more than 1 MiB."""

_SHORT_VALUES = 1000
"""A value of up to this many numbers and times, with their names, is never too long."""

DELETED = "#is deleted"  # not the name of a field
"""A column of the rows of a table: whether the record deletes the row of its key. Then the fields
are null."""

ORDER = ("record_partition", "record_offset")
"""The order of the records of a key, for state that has the newest one."""
_LONG = LISTS | {Kind.STRING}

_Values = tuple[tuple[str, Expression], ...]
_Check = Callable[[Columns], Column]


@dataclass(frozen=True, slots=True)
class DerivedDecoder:
    """Decodes the value. Rejects records whose ``require`` is not true, whose key is not usable or
    whose value would be too long. Decoded rows have the fields of the value, those of
    ``RECORD_FIELDS`` that the view uses, and ``DELETED`` if they are those of a table."""

    derivation: Derivation

    @property
    def event_time(self) -> EventTimeBounds | None:
        time = self.derivation.time
        if time is None:
            return None
        return EventTimeBounds(time.field or "time", time.before_s, time.after_s)

    @property
    def is_table(self) -> bool:
        return self.derivation.is_table

    def well_formed(self, records: DataFrame) -> DataFrame:
        record = self._record_columns()
        keys = ["key"] if self.derivation.key_fields else []
        given = records.select("timestamp", "value", *keys, *_aliased(record))
        decoded, fields = self._decoded(given, [*record])
        names = {**fields, **{name: F.col(name) for name in record}, **self._key_column()}
        if self.is_table:
            is_deletion = F.coalesce(F.col(REASON) == IS_DELETION, F.lit(False))
            accepted = decoded.where(F.isnull(REASON) | is_deletion)
            accepted = accepted.where(names["record_key"].isNotNull())
            columns = [*_aliased(names), is_deletion.alias(DELETED)]
        else:
            accepted = decoded.where(F.isnull(REASON))
            columns = _aliased(names)
        if keys:
            accepted = accepted.where(F.isnull(KEY_REASON))
        violation = self._violation(names)
        if violation is not None:
            accepted = accepted.where(violation.isNull())
        return accepted.select(*columns)

    def malformed(self, records: DataFrame) -> DataFrame:
        columns = records.columns
        decoded, fields = self._decoded(records, columns)
        reason = F.col(REASON)
        if self.is_table:  # also a deletion needs a key
            reason = F.when(~reason.isin(*NOT_REJECTED), reason)
            reason = F.coalesce(wrong_key(self.derivation.key_fields), reason)
            decoded = decoded.where(~F.col(REASON).eqNullSafe(NO_ROW))
        else:
            # Here, and not for the final reason, whose expressions would be computed once more.
            decoded = decoded.where(reason.isNull() | ~reason.isin(*NOT_REJECTED))
            if self.derivation.key_fields:
                reason = F.coalesce(KEY_REASON, reason)
        names = {**fields, **self._record_columns(), **self._key_column()}
        violation = self._violation(names)
        if violation is not None:
            reason = F.coalesce(reason, violation)
        return decoded.select(*columns, reason.alias("reason")).where("reason IS NOT NULL")

    def _decoded(self, records: DataFrame, kept: list[str]) -> tuple[DataFrame, dict[str, Column]]:
        """The columns ``kept`` of all records, and ``REASON``; and the fields of the value, as
        columns of these rows."""
        derivation, bounds = self.derivation, self.event_time
        if not derivation.fields:
            text = F.col("value").cast("string").alias(TEXT)
            reason = not_text("value")
            if self.is_table:
                reason = F.when(F.isnull("value"), IS_DELETION).otherwise(reason)
            rows = records.select(*kept, text, reason.alias(REASON))
            return rows, {TEXT: F.col(TEXT)}
        names = self._value_fields()
        if bounds is not None and bounds.field not in names:
            bounds = None  # ``_violation`` checks it
        value = declared_values(
            derivation.fields, derivation.rows, derivation.paths, derivation.schema
        )
        rows = value.judged(
            records, kept, deletes=self.is_table, event_time=bounds,
            key_fields=derivation.key_fields,
        )  # fmt: skip
        return rows, {name: F.col(f"{FIELDS}.{name}") for name in names}

    def _value_fields(self) -> list[str]:
        return [name for name, _ in self.derivation.fields]

    def _key_column(self) -> dict[str, Column]:
        """``record_key``, if it is a text that ``_decoded`` adds."""
        has_text = self.derivation.key_fields and "record_key" in self._used_fields()
        return {"record_key": F.col(KEY_TEXT)} if has_text else {}

    def _record_columns(self) -> dict[str, Column]:
        """The fields of the record that the view uses, as columns of RAW_RECORD."""
        used = self._used_fields()
        text = F.col("key").cast("string")
        columns = {
            "record_key": F.when(F.is_valid_utf8(text), text),
            "record_timestamp": F.col("timestamp"),
            "record_partition": F.col("partition"),
            "record_offset": F.col("offset"),
        }
        if self.derivation.key_fields:
            used.discard("record_key")
        return {name: columns[name] for name in RECORD_FIELDS if name in used}

    def _used_fields(self) -> set[str]:
        """The names of the fields that the view uses, also those that are not of the record."""
        used = {
            name for expression in expressions(self.derivation) for name in fields_of(expression)
        }
        used.update(self.derivation.identity)
        if self.is_table:
            used.add("record_key")
        if self.derivation.changing or (self.is_table and self.derivation.aggregates):
            used.update(ORDER)
        if self.derivation.is_rekeyed:
            used.update((*ORDER, "record_timestamp"))
        time = self.derivation.time
        if time is not None and time.field not in self._value_fields():
            used.add("record_timestamp")
        return used

    def _violation(self, names: Columns) -> Column | None:
        """The reason why a decoded record is rejected, or null; None if none can be."""
        derivation = self.derivation
        # Only the plan joins. ``TableDecoder`` ensures that the fields of tables are short enough.
        joined = derivation.joined_fields
        unknown = {name: F.lit(None).cast(spark_type(type_)) for name, type_ in joined.items()}
        names = {**names, **unknown}
        checks: list[tuple[Column, str]] = []
        if derivation.require is not None:
            checks.append((~condition(derivation.require, names), "require: not true"))
        time = derivation.time
        bounds = self.event_time
        if time is not None and bounds is not None and time.field not in self._value_fields():
            at = column(time.expression, names)
            checks += [
                (_if_counted(derivation, wrong, names), why)
                for wrong, why in violations(bounds, at, names["record_timestamp"])
            ]
        row_checks = list(_key_checks(derivation))
        if derivation.is_table:
            # The key of a row that is deleted, or is not in the view, is written, too.
            is_row = ~F.col(REASON).eqNullSafe(IS_DELETION)
            key_checks = [(check(names), why) for check, why in row_checks]
            row_checks = []
        row_checks += _value_checks(derivation)
        checks += [(_any_row(derivation, check, names), why) for check, why in row_checks]
        if derivation.is_table:
            checks = [*key_checks, *((is_row & wrong, why) for wrong, why in checks)]
        reasons = [F.when(wrong, F.lit(why)) for wrong, why in checks]
        return F.coalesce(*reasons) if reasons else None


def wrong_key(key_fields: tuple[str, ...]) -> Column:
    """Why a record of a table has no key; null if it has one. The rows are those of
    ``judged``."""
    if not key_fields:
        return not_text("key")
    return F.coalesce(F.when(F.isnull("key"), "key: null"), F.col(KEY_REASON))


def expressions(derivation: Derivation) -> Iterator[Expression]:
    """All expressions of a view."""
    yield from derivation.key
    yield from (
        aggregate.expression
        for aggregate in derivation.aggregates
        if aggregate.expression is not None
    )
    if derivation.select is not None:
        yield from (expression for _, expression in derivation.select.values)
    if derivation.each is not None:
        yield derivation.each[1]
    if derivation.time is not None:
        yield derivation.time.expression
    yield from (join.on for join in derivation.joins)
    for test in (derivation.require, derivation.where):
        if test is not None:
            yield test


def _if_counted(derivation: Derivation, wrong: Column, names: Columns) -> Column:
    """Whether something is wrong with a row that counts. If ``where`` needs a field that is not
    known from ``names``, the row counts."""
    unknown = {*derivation.joined_fields}
    unknown |= {name for name in derivation.repeated_fields if name not in names}
    if derivation.where is not None and not fields_of(derivation.where) & unknown:
        wrong = condition(derivation.where, names) & wrong
    return F.coalesce(wrong, F.lit(False))


def _any_row(derivation: Derivation, check: _Check, names: Columns) -> Column:
    """Whether the check is true for one of the rows that the record becomes."""

    def row_is_wrong(names: Columns) -> Column:
        return _if_counted(derivation, check(names), names)

    if derivation.each is None:
        return row_is_wrong(names)
    name, array = derivation.each

    def element_is_wrong(element: Column) -> Column:
        fields = {name: element}
        if isinstance(array.type, Objects):
            fields = {f"{name}.{member}": element[member] for member, _ in array.type.members}
        return row_is_wrong({**names, **fields})

    return F.coalesce(F.exists(column(array, names), element_is_wrong), F.lit(False))


def _key_checks(derivation: Derivation) -> Iterator[tuple[_Check, str]]:
    """What makes the key of a row unusable, and the reason."""
    strings = [part for part in derivation.key if part.type.kind is Kind.STRING]
    if strings:
        yield (
            lambda names: F.octet_length(key_column(derivation, names)) > MAX_KEY_BYTES,
            f"key: more than {MAX_KEY_BYTES} bytes",
        )
    if strings and len(derivation.key) > 1:
        separator = F.lit(derivation.separator)
        yield (
            lambda names: reduce(
                Column.__or__,
                (F.contains(part, separator) for part in key_parts(derivation, names)),
            ),
            f"key: a part has the separator {derivation.separator}",
        )


def _value_checks(derivation: Derivation) -> Iterator[tuple[_Check, str]]:
    """What makes the value of a row unusable, and the reason."""
    for what, values, max_bytes in _long_values(derivation):
        yield (
            partial(_is_longer, values=values, max_bytes=max_bytes),
            f"{what}: more than {max_bytes} bytes",
        )


def _is_longer(names: Columns, values: _Values, max_bytes: int) -> Column:
    """Whether the values as JSON need more than ``max_bytes`` bytes."""
    fields = (column(expression, names).alias(name) for name, expression in values)
    return F.octet_length(F.to_json(F.struct(*fields))) > max_bytes


def _long_values(derivation: Derivation) -> Iterator[tuple[str, _Values, int]]:
    """Parts of the value that may be long: their name, expressions and greatest length."""
    parts: list[tuple[str, _Values, int]] = []
    selected = derivation.select.values if derivation.select else ()
    if derivation.is_map:
        parts.append(("select", selected, 1))
    for aggregate in derivation.aggregates:
        if aggregate.function in ("latest", "top_k"):
            parts.append((aggregate.name, selected, aggregate.k or 1))
        elif aggregate.function in ("min", "max") and aggregate.expression is not None:
            parts.append((aggregate.name, ((aggregate.name, aggregate.expression),), 1))
    parts = [
        (name, values, times)
        for name, values, times in parts
        if times * len(values) > _SHORT_VALUES
        or any(expression.type.kind in _LONG for _, expression in values)
    ]
    shares = sum(times for _, _, times in parts)
    for what, values, _ in parts:
        yield what, values, MAX_VALUE_BYTES // shares


def _aliased(columns: Columns) -> list[Column]:
    return [value.alias(name) for name, value in columns.items()]
