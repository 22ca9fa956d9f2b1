"""The checked content of ``[views.NAME.derive]``."""

from __future__ import annotations

from dataclasses import dataclass, field

from model.expressions.tree import Call, Expression, Field, Literal, fields_of
from model.expressions.types import STRING, TIMESTAMP, Objects, Type, integer
from model.kinds.calendar_windows import CalendarWindows
from model.rows.reader import RowRule
from model.times import duration_text

RECORD_FIELDS: dict[str, Type] = {
    "record_key": STRING.or_null(),
    "record_timestamp": TIMESTAMP,
    "record_partition": integer(0, 2**31 - 1),
    "record_offset": integer(0),
}
"""The fields that each record has, whatever its value is. ``record_key`` is null if the record has
no key, or if the key is not UTF-8."""

TEXT = "text"
"""The field of a record whose value is text."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``name``: its field in a JSON value. ``expression``: what is summed or compared, or the
    condition of a count (None: all records count). ``type``: the type of the result. ``k``: only
    for top_k."""

    function: str
    name: str
    expression: Expression | None
    type: Type
    k: int = 0


@dataclass(frozen=True, slots=True)
class Select:
    """The value of one record, for maps, ``latest`` and ``top_k``. ``single``: whether it is one
    expression instead of a JSON object."""

    values: tuple[tuple[str, Expression], ...]
    single: bool


@dataclass(frozen=True, slots=True)
class EventTime:
    """``expression``: the time of a record. ``before_s`` and ``after_s``: how many seconds it may
    be before and after the record's timestamp. ``before_s`` is None if no record is late."""

    expression: Expression
    before_s: int | None
    after_s: int

    @property
    def field(self) -> str | None:
        """The name of the field, if the time is a field; otherwise None."""
        return self.expression.name if isinstance(self.expression, Field) else None


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of ``size`` ms that start every ``advance`` ms, in UTC."""

    size: int
    advance: int

    def __str__(self) -> str:
        """The size as in views.toml."""
        return duration_text(self.size)


@dataclass(frozen=True, slots=True)
class Join:
    """The table ``name``: the newest record of each key in the topic ``source``. A record gets the
    row whose key is the value of ``on``. ``static``: whether the table never changes. Otherwise the
    view follows its changes.

    With ``within``, ``source`` is a ``stream``, and its records have all ``fields``. A record forms
    a pair with each of them whose key equals ``on`` and whose time differs by at most ``within``
    ms. ``schema`` and ``key_fields`` are those of ``Derivation``.
    """

    name: str
    source: str
    on: Expression
    fields: tuple[tuple[str, Type], ...]
    rows: RowRule | None = None
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    static: bool = False
    within: int = 0
    stream: Derivation | None = None
    schema: ValueSchema | None = None
    key_fields: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """The fields of the table, as ``plane.model``."""
        return {f"{self.name}.{name}" for name, _ in self.fields}


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """How to decode values whose fields a schema declares. ``format``: a name of views.toml.
    ``content``: the content of the file with the reader's schema. ``message``: the type of Protobuf
    messages. ``is_framed``: values name the schema that they were written with, as Confluent's
    serializers do."""

    format: str
    content: bytes = field(repr=False)
    message: str = ""
    is_framed: bool = False


@dataclass(frozen=True, slots=True)
class Derivation:
    """A view that Spark derives from the topic ``source``. Times are in ms.

    ``fields``: those of a JSON value; empty if the value is text. The steps have this order:
    ``require`` (other records are dead letters), ``identity`` (records that are equal in these
    fields count once), ``joins``, ``each`` (a row for each element of a list), ``where``, grouping
    by ``key`` and window or session, ``aggregates``. Without aggregates, the view is a map: the
    value of a row is ``select``, and the last row of a key counts. ``is_table``: the newest record
    of a record key is its row, and a null value deletes it. ``session``: the gap that ends a
    session. ``points``: instead of windows, an entry for each key and time. ``rows``: how rows are
    read from values; None: every value is a row. ``paths``: the paths of the fields that are not
    members of the value, or of its row, with the field's name. ``schema``: None if values are JSON
    or text. ``key_fields``: the fields of keys that are documents, whose text is ``record_key``.
    ``topic_config``: settings of the topic, if Spark's job creates it. ``written``: the table in
    its ``normal_form``.
    """

    source: str
    fields: tuple[tuple[str, Type], ...]
    key: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    select: Select | None = None
    separator: str = "|"
    require: Expression | None = None
    each: tuple[str, Expression] | None = None
    where: Expression | None = None
    identity: tuple[str, ...] = ()
    joins: tuple[Join, ...] = ()
    time: EventTime | None = None
    window: Windows | CalendarWindows | None = None
    session: int | None = None
    points: bool = False
    is_table: bool = False
    rows: RowRule | None = None
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    schema: ValueSchema | None = None
    key_fields: tuple[str, ...] = ()
    topic_config: tuple[tuple[str, str], ...] = ()
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @property
    def joined_fields(self) -> dict[str, Type]:
        """The fields of all tables, as ``plane.model``."""
        return {
            f"{join.name}.{name}": type_.or_null()
            for join in self.joins
            for name, type_ in join.fields
        }

    @property
    def changing(self) -> tuple[Join, ...]:
        """The joins with tables that change."""
        return tuple(join for join in self.joins if not join.static and join.stream is None)

    @property
    def pairs(self) -> Join | None:
        """The join of two streams, if there is one."""
        return next((join for join in self.joins if join.stream is not None), None)

    @property
    def where_is_last(self) -> bool:
        """Whether ``where`` has fields of tables that change, or of another stream."""
        names = set[str]().union(*(join.names for join in self.joins if not join.static))
        return self.where is not None and bool(fields_of(self.where) & names)

    @property
    def repeated_fields(self) -> frozenset[str]:
        """The fields of the rows of ``each``, which the record does not have: ``word``, or
        ``item.sku`` of objects."""
        if self.each is None:
            return frozenset()
        name, array = self.each
        if isinstance(array.type, Objects):
            return frozenset(f"{name}.{member}" for member, _ in array.type.members)
        return frozenset([name])

    @property
    def filters_records(self) -> bool:
        """Whether there is a ``where`` that depends on the record alone."""
        unknown = {*self.joined_fields, *self.repeated_fields}
        return self.where is not None and not fields_of(self.where) & unknown

    @property
    def is_map(self) -> bool:
        """Whether the view has no aggregates: a row becomes an entry as it is."""
        return not self.aggregates

    @property
    def has_record_keys(self) -> bool:
        """Whether the key is ``record_key``, or ``concat`` of it and literal texts: different
        records have different keys."""
        [part, *more] = self.key
        parts: tuple[Expression, ...] = (part,)
        if isinstance(part, Call) and part.function == "concat":
            parts = part.arguments
        others = [part for part in parts if not isinstance(part, Literal)]
        is_field = len(others) == 1 and isinstance(others[0], Field)
        return not more and is_field and fields_of(part) == {"record_key"}

    @property
    def is_rekeyed(self) -> bool:
        """Whether the view has the rows of a table with other keys than those of its records."""
        return self.is_table and self.is_map and not self.has_record_keys

    @property
    def shape(self) -> str:
        """The kind of entries in the view's topic: ``keys``, ``windows`` or ``sessions``."""
        return "windows" if self.window or self.points else "sessions" if self.session else "keys"

    @property
    def only(self) -> Aggregate | None:
        """The only aggregate, if its value need not be a JSON object."""
        return self.aggregates[0] if len(self.aggregates) == 1 else None
