"""The parser of ``[views.NAME.derive]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from model.derive.aggregates import (
    FUNCTIONS,
    IN_SESSIONS,
    parse_aggregates,
    parse_select,
    select_all,
)
from model.derive.derivation import (
    RECORD_FIELDS,
    TEXT,
    Aggregate,
    Derivation,
    EventTime,
    Join,
    Select,
    Windows,
)
from model.derive.fields import MAX_FIELDS, parse_topic
from model.derive.joins import check_changing, check_places, parse_joins
from model.derive.maps import check_map, check_order, check_table, parse_kind
from model.derive.normal_form import normal_form
from model.derive.old_names import current_names, written_path
from model.derive.reading import (
    TableError,
    check_keys,
    check_name,
    check_new,
    read_duration,
    read_expression,
    read_table,
    read_text,
)
from model.derive.rows import ROW_KEYS, check_rows, parse_keys, parse_rows
from model.derive.schema_fields import parse_values
from model.derive.stream_joins import check_pairs, has_within
from model.derive.topic_config import parse_topic_config
from model.expressions.tree import Expression, Field, fields_of, known_not_null
from model.expressions.types import COLLECTIONS, LISTS, STRING, Kind, Objects, element_type
from model.expressions.zones import check_zone
from model.formats.format import Read
from model.kinds.calendar_windows import CalendarWindows, parse_unit

KEYS = (
    *(
        "from",
        "kind",
        "format",
        "schema",
        "message",
        *ROW_KEYS,
        "fields",
        "join",
        "let",
        "require",
        "each",
        "where",
        "identity",
        "key",
        "separator",
    ),
    *(
        "time",
        "lateness",
        "earliness",
        "window",
        "zone",
        "advance",
        "session",
        "points",
        *FUNCTIONS,
        "select",
        "topic_config",
    ),
)
MAX_KEY_PARTS = 8
MAX_WINDOWS_OF_A_RECORD = 100
EARLINESS_S = 3600
"""The default of ``earliness``: clocks differ, but a time in the far future is a mistake."""

Names = dict[str, Expression]


def _no_files(name: str) -> bytes:
    raise ValueError("files cannot be read here")


def parse_derivation(table: Any, read: Read = _no_files) -> Derivation:
    """Parse a table of views.toml. ``read``: reads files with schemas. Raises TableError, with the
    path of the key."""
    if not isinstance(table, dict):
        raise TableError((), "must be a table: write [views.NAME.derive]")
    try:
        return _parse_current(current_names(table), read)
    except TableError as e:
        raise TableError(written_path(e.path, table), str(e)) from None


def _parse_current(table: Mapping[str, Any], read: Read) -> Derivation:
    check_keys(table, KEYS)
    for name, meaning in (("from", "the topic that is read"), ("key", "the key of the view")):
        if name not in table:
            raise TableError((), f'{name} is missing: {name} = "…", {meaning}')
    source = parse_topic(table["from"], ("from",))
    declared = parse_values(table, read)
    fields, paths = declared.fields, declared.paths
    names: Names = {name: Field(name, type_) for name, type_ in RECORD_FIELDS.items()}
    is_table = parse_kind(table)
    if is_table:
        names["record_key"] = Field("record_key", STRING)  # a record without one is a dead letter
    names = dict(fields or {TEXT: Field(TEXT, STRING)}) | names
    joins = parse_joins(table, names, partial(parse_derivation, read=read), read)
    _check_joined_names(joins, fields)
    let = _parse_let(table, names)
    require = _parse_condition("require", table, names, let)
    repeated = _parse_each(table, names)
    where = _parse_condition("where", table, names, let)
    time = _parse_time(table, names)
    key = _parse_key(table, names)
    aggregates = parse_aggregates(table, names)
    select = _select(table, aggregates, names, fields)
    session = read_duration(table["session"], ("session",)) if "session" in table else None
    if session is not None:
        _check_session(table, aggregates)
    derivation = Derivation(
        source=source,
        fields=tuple((field.name, field.type) for field in fields.values()),
        key=key,
        aggregates=aggregates,
        select=select,
        separator=_parse_separator(table),
        require=require,
        each=repeated,
        where=where,
        time=time,
        window=_parse_window(table),
        session=session,
        points=_parse_points(table),
        is_table=is_table,
        identity=_parse_identity(table, names),
        joins=joins,
        rows=parse_rows(table, declared.schema),
        paths=paths,
        schema=declared.schema,
        key_fields=parse_keys(table, fields),
        topic_config=parse_topic_config(table.get("topic_config", {}), ("topic_config",)),
        # the settings of its topic do not change what the view means
        written=normal_form({key: table[key] for key in table if key != "topic_config"}),
    )
    check_rows(table, derivation)
    check_map(table, derivation)
    check_table(table, derivation)
    check_order(derivation)
    check_places(derivation)
    check_changing(table, derivation)
    check_pairs(derivation)
    if time is not None and fields_of(time.expression) & derivation.repeated_fields:
        name = min(fields_of(time.expression) & derivation.repeated_fields)
        raise TableError(("time",), f"cannot have {name}, which is not a field of the record")
    _check_identity(derivation)
    _check_times_of_objects(derivation)
    return derivation


def _check_joined_names(joins: Iterable[Join], fields: Iterable[str]) -> None:
    """Raise TableError if ``a.b`` could be a field of the value and of a join."""
    records = {name.partition(".")[0] for name in fields if "." in name}
    for join in joins:
        if join.name in records:
            raise TableError(("join", join.name), "is already the name of a record in the value")


def _parse_time(table: Mapping[str, Any], names: Names) -> EventTime | None:
    if "time" not in table:
        for key in ("lateness", "earliness"):
            if key in table:
                raise TableError((key,), "only with time, the time of a record")
        if any(key in table for key in ("window", "session", "points")) or has_within(table):
            return EventTime(names["record_timestamp"], 0, 0)
        return None
    path = ("time",)
    expression = read_expression(table["time"], path, names, Kind.TIME)
    if expression.type.optional:
        raise TableError(
            path,
            'may be null; declare its fields without ?, a number as "time ms" (or with a range), '
            'or add "… is not null" to where',
        )
    if expression == names["record_timestamp"]:
        for key in ("lateness", "earliness"):
            if key in table:
                raise TableError((key,), "a record is never late or early by its own timestamp")
        return EventTime(expression, 0, 0)
    # A default for lateness would reject the events of an import, which are older than the records.
    lateness_s = _read_seconds("lateness", table) if "lateness" in table else None
    earliness_s = _read_seconds("earliness", table) if "earliness" in table else EARLINESS_S
    return EventTime(expression, lateness_s, earliness_s)


def _read_seconds(key: str, table: Mapping[str, Any]) -> int:
    duration = read_duration(table[key], (key,), least=0)
    if duration % 1000:
        raise TableError((key,), "must be whole seconds")
    return duration // 1000


def _parse_points(table: Mapping[str, Any]) -> bool:
    if "points" not in table:
        return False
    if table["points"] is not True:
        raise TableError(("points",), "must be true")
    for key in ("window", "session"):
        if key in table:
            raise TableError(("points",), f"a view has points or a {key}, not both")
    return True


def _parse_let(table: Mapping[str, Any], names: Names) -> dict[str, str]:
    """Parse the expressions of ``let``, and add them to ``names``. Returns their texts."""
    if "let" not in table:
        return {}
    path = ("let",)
    meaning = 'let = { minute = "div(unix_seconds(time), 60)" }'
    let = read_table(table["let"], path, MAX_FIELDS, meaning)
    for name, text in let.items():
        check_new(name, names, (*path, name))
        names[name] = read_expression(text, (*path, name), names)
    return let


def _parse_condition(
    key: str, table: Mapping[str, Any], names: Names, let: Mapping[str, str]
) -> Expression | None:
    """Parse a condition. Afterwards, fields that are not null if it is true are never null in
    ``names``."""
    if key not in table:
        return None
    condition = read_expression(table[key], (key,), names, Kind.BOOLEAN)
    known = known_not_null(condition)
    for name, value in names.items():
        if isinstance(value, Field) and value.name in known:
            names[name] = Field(value.name, value.type.never_null())
    for name, text in let.items():
        names[name] = read_expression(text, ("let", name), names)
    return condition


def _parse_each(table: Mapping[str, Any], names: Names) -> tuple[str, Expression] | None:
    """Parse ``each``, and add its name to ``names``."""
    if "each" not in table:
        return None
    meaning = "each = { word = \"regexp_extract_all(text, '[a-z]+')\" }"
    each_table = read_table(table["each"], ("each",), 1, meaning)
    [(name, text)] = each_table.items()
    check_new(name, names, ("each", name))
    expression = read_expression(text, ("each", name), names, *sorted(LISTS), Kind.OBJECTS)
    if isinstance(expression.type, Objects):
        if not isinstance(expression, Field):
            raise TableError(("each", name), "a list of objects must be a field itself")
        for member, type_ in expression.type.members:
            names[f"{name}.{member}"] = Field(f"{name}.{member}", type_)
    else:
        names[name] = Field(name, element_type(expression.type))
    return name, expression


def _parse_key(table: Mapping[str, Any], names: Names) -> tuple[Expression, ...]:
    path = ("key",)
    value = table["key"]
    texts = value if isinstance(value, list) else [value]
    if not 1 <= len(texts) <= MAX_KEY_PARTS:
        raise TableError(path, f"has {len(texts)} parts; it must have 1 to {MAX_KEY_PARTS}")
    parts = tuple(read_expression(text, path, names, Kind.STRING, Kind.INTEGER) for text in texts)
    for text, part in zip(texts, parts, strict=True):
        if part.type.optional:
            raise TableError(
                path,
                f'"{text}" may be null; declare its fields without ?, or add "… is not null" to '
                "where, or use coalesce",
            )
    return parts


def _parse_separator(table: Mapping[str, Any]) -> str:
    if "separator" not in table:
        return "|"
    if not isinstance(table["key"], list) or len(table["key"]) < 2:
        raise TableError(("separator",), "only for a key of several parts")
    text = read_text(table["separator"], ("separator",), 'a character such as "|"')
    if len(text) != 1 or not text.isprintable() or text.isalnum() or text == "-":
        raise TableError(("separator",), f"{text[:20]!r} is not a character such as | or /")
    return text


def _parse_window(table: Mapping[str, Any]) -> Windows | CalendarWindows | None:
    if "window" not in table:
        for key in ("advance", "zone"):
            if key in table:
                raise TableError((key,), "only with window")
        return None
    if "session" in table:
        raise TableError(("session",), "a view has windows or sessions, not both")
    try:
        unit = parse_unit(read_text(table["window"], ("window",), 'such as "1h" or "1 month"'))
    except ValueError as e:
        raise TableError(("window",), str(e)) from None
    if unit is not None:
        return _calendar_windows(unit, table)
    if "zone" in table:
        raise TableError(
            ("zone",),
            'only with windows of the calendar: write window = "1 day", not "24h"',
        )
    size = read_duration(table["window"], ("window",))
    if "advance" not in table:
        return Windows(size, size)
    advance = read_duration(table["advance"], ("advance",))
    if advance > size or size > MAX_WINDOWS_OF_A_RECORD * advance:
        raise TableError(
            ("advance",),
            f"must be at most the window, and at least a {MAX_WINDOWS_OF_A_RECORD}th of it",
        )
    return Windows(size, advance)


def _calendar_windows(unit: str, table: Mapping[str, Any]) -> CalendarWindows:
    if "advance" in table:
        raise TableError(
            ("advance",),
            f"not with windows of the calendar: one {unit} begins where the last one ends",
        )
    if "zone" not in table:
        return CalendarWindows(unit)
    zone = read_text(table["zone"], ("zone",), 'a time zone such as "Europe/Berlin"')
    try:
        check_zone(zone)
    except ValueError as e:
        raise TableError(("zone",), str(e)) from None
    return CalendarWindows(unit, zone)


def _check_session(table: Mapping[str, Any], aggregates: tuple[Aggregate, ...]) -> None:
    for aggregate in aggregates:
        if aggregate.function not in IN_SESSIONS:
            allowed = ", ".join(IN_SESSIONS)
            raise TableError((aggregate.function,), f"not with session, which allows {allowed}")
        if aggregate.expression is not None and aggregate.expression.type.kind not in (
            Kind.INTEGER,
            Kind.BOOLEAN,
        ):
            raise TableError(
                (aggregate.function,),
                f"with session, it must aggregate a whole number: {aggregate.name}",
            )


def _select(
    table: Mapping[str, Any],
    aggregates: tuple[Aggregate, ...],
    names: Names,
    fields: Mapping[str, Field],
) -> Select | None:
    if aggregates and not any(a.function in ("latest", "top_k") for a in aggregates):
        if "select" in table:
            raise TableError(("select",), "only with latest or top_k, or without an aggregate")
        return None
    if "select" in table:
        return parse_select(table["select"], names)
    return select_all({name: names[name] for name in fields or (TEXT,)})


def _parse_identity(table: Mapping[str, Any], names: Names) -> tuple[str, ...]:
    path = ("identity",)
    if "identity" not in table:
        return ()
    value = table["identity"]
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        raise TableError(path, 'must be a list of different fields: identity = ["id", "time"]')
    for name in value:
        if not isinstance(name, str):
            raise TableError(path, f"{name!r} is not the name of a field")
        if name not in names:
            check_name(name, path)
        field = names.get(name)
        if not isinstance(field, Field):
            raise TableError(path, f"{name} is not a field of the record")
        if field.type.kind in COLLECTIONS:
            raise TableError(path, f"{name} is a {field.type.kind}, which identifies no record")
    fields = (names[name] for name in value)
    return tuple(field.name for field in fields if isinstance(field, Field))


def _check_times_of_objects(derivation: Derivation) -> None:
    """Raise TableError if the state of a join would contain times within objects. It keeps only
    their milliseconds."""
    if derivation.each is None or not derivation.changing:
        return
    name, array = derivation.each
    for member, type_ in array.type.members if isinstance(array.type, Objects) else ():
        if type_.kind is Kind.TIME:
            raise TableError(
                ("each", name),
                f"with a join that follows its table, {name}.{member} cannot be a time: declare it "
                'as "string" or "long", or write two views',
            )


def _check_identity(derivation: Derivation) -> None:
    """Raise TableError if the view uses a field that is not part of the identity: of several rows
    with the same identity, an arbitrary one is kept."""
    identity = derivation.identity
    if not identity:
        return
    path = ("identity",)
    for name in derivation.repeated_fields.intersection(identity):
        raise TableError(path, f"{name} is not a field of the record")
    expressions = [*derivation.key, *(a.expression for a in derivation.aggregates if a.expression)]
    expressions += (
        [expression for _, expression in derivation.select.values] if derivation.select else []
    )
    expressions += [derivation.where] if derivation.where else []
    expressions += [derivation.time.expression] if derivation.time else []
    used = set().union(*map(fields_of, expressions)) - derivation.joined_fields.keys()
    used.update(*(fields_of(join.on) for join in derivation.joins))
    if derivation.each is not None:
        used = used - derivation.repeated_fields | fields_of(derivation.each[1])
    for name in sorted(used - set(identity)):
        raise TableError(
            path,
            f"must have {name}, which the view uses: of two records with the same identity, either "
            "could count",
        )
