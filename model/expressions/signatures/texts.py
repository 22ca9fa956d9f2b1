"""The types of functions of texts, lists and maps."""

from __future__ import annotations

from model.expressions.patterns import check_like, check_pattern
from model.expressions.signatures.signature import (
    Arguments,
    Typing,
    check,
    check_count,
    check_same_kind,
    literal_int,
    literal_text,
    may_be_null,
)
from model.expressions.types import (
    BOOLEAN,
    COLLECTIONS,
    LISTS,
    STRING,
    STRINGS,
    Kind,
    Type,
    WrongKindError,
    element_type,
    integer,
)

MAX_BYTES = 2**31 - 1
MAX_REPLACED = 1_000_000
"""The maximum number of characters of a text that ``replace`` has made longer."""


def concat(arguments: Arguments) -> Type:
    for argument in arguments:
        kind = argument.type.kind
        if kind not in (Kind.STRING, Kind.INTEGER):
            hint = ". Write try_cast(a as string)," if kind is Kind.BOOLEAN else ""
            raise WrongKindError(f"concat joins strings and whole numbers, not a {kind}{hint}")
    return STRING.or_null(may_be_null(arguments))


def substring(arguments: Arguments) -> Type:
    optional = check("substring", arguments, Kind.STRING, Kind.INTEGER, Kind.INTEGER, least=2)
    literal_int("the start of substring", arguments[1], 1, MAX_BYTES)
    if len(arguments) == 3:
        literal_int("the length of substring", arguments[2], 0, MAX_BYTES)
    return STRING.or_null(optional)


def like(arguments: Arguments) -> Type:
    optional = check("like", arguments, Kind.STRING, Kind.STRING)
    pattern = arguments[1].literal
    if not isinstance(pattern, str):
        raise ValueError(
            "the pattern of like must be a literal. Write contains(a, b) or starts_with(a, b),"
        )
    if "\\" in pattern:
        raise ValueError(
            "the pattern of like has no \\. Write regexp_like(a, '…') for a pattern, or "
            "contains(a, '%'),"
        )
    check_like(pattern)
    return BOOLEAN.or_null(optional)


def matched(name: str, result: Type, groups: bool) -> Typing:
    """A function of a text, a regular expression and (``groups``) the number of a group."""

    def type_(arguments: Arguments) -> Type:
        kinds = (Kind.STRING, Kind.STRING, *([Kind.INTEGER] if groups else []))
        optional = check(name, arguments, *kinds, least=2)
        count = check_pattern(literal_text(f"the pattern of {name}", arguments[1]))
        if len(arguments) == 3:
            literal_int(f"the group of {name}", arguments[2], 0, count)
        return result.or_null(optional)

    return type_


def replace(arguments: Arguments) -> Type:
    """Null if the text becomes longer than ``MAX_REPLACED`` characters."""
    optional = check("replace", arguments, Kind.STRING, Kind.STRING, Kind.STRING)
    old = literal_text("the text that replace looks for", arguments[1])
    new = literal_text("the text that replace puts there", arguments[2])
    if not old:
        raise ValueError("the text that replace looks for must not be empty")
    return STRING.or_null(optional or len(new) > len(old))


def split(arguments: Arguments) -> Type:
    optional = check("split", arguments, Kind.STRING, Kind.STRING)
    if not literal_text("the separator of split", arguments[1]):
        raise ValueError("the separator of split must not be empty")
    return STRINGS.or_null(optional)


def contains(arguments: Arguments) -> Type:
    """Whether a text contains another text, or a list contains an element."""
    check_count("contains", arguments, 2, 2)
    container, part = (argument.type for argument in arguments)
    if container.kind in LISTS:
        check_same_kind("contains", {element_type(container).kind, part.kind})
        if element_type(container).kind is not part.kind:
            raise WrongKindError(f"contains looks for a whole number, not for a {part.kind}")
        return BOOLEAN.or_null(may_be_null(arguments))
    if container.kind is Kind.MAP:
        raise ValueError("contains is for texts and lists. Write a['name'] is not null for a map,")
    return BOOLEAN.or_null(check("contains", arguments, Kind.STRING, Kind.STRING))


def size(arguments: Arguments) -> Type:
    check_count("size", arguments, 1, 1)
    [operand] = (argument.type for argument in arguments)
    if operand.kind not in COLLECTIONS:
        hint = ". Write length(a)," if operand.kind is Kind.STRING else ""
        raise WrongKindError(f"size is for lists and maps, not for a {operand.kind}{hint}")
    return integer(0, MAX_BYTES, operand.optional)


def map_keys(arguments: Arguments) -> Type:
    return STRINGS.or_null(check("map_keys", arguments, Kind.MAP))


def element(arguments: Arguments) -> Type:
    """``list[1]`` or ``map['name']``."""
    collection, at = (argument.type for argument in arguments)
    if collection.kind is Kind.OBJECTS:
        raise ValueError('a list of objects is for each: write each = { item = "items" },')
    if collection.kind not in COLLECTIONS:
        raise WrongKindError(
            f"a {collection.kind} has no elements. Declare the field as strings, longs or map, or "
            'a member of it by a path: { path = "a.b", type = "string" },'
        )
    needed = Kind.STRING if collection.kind is Kind.MAP else Kind.INTEGER
    if at.kind is not needed:
        example = "a['name']" if needed is Kind.STRING else "a[1]"
        raise WrongKindError(f"an element of a {collection.kind} is written as {example}")
    if arguments[1].literal == 0:
        raise ValueError("the first element is a[1]")
    return element_type(collection).or_null()
