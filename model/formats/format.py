"""The interface of a format: what it has in views.toml, in Python, in OpenAPI and in a registry."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from model.expressions.types import Kind, Type
from model.formats.codec import Codec
from model.formats.json_text import PYTHON_LEVELS, check_levels
from model.formats.schemas import CONFLUENT, Schema, SchemaSource

DeclaredField = tuple[tuple[str, ...], Type]
"""The names of the members that lead to a field in a value, and its type."""

MAX_FIELD_LEVELS = 16
"""How many names lead to a declared field at most."""

Read = Callable[[str], bytes]
"""File name in views.toml -> content of the file. Raises ValueError if it cannot be read."""

References = Sequence[tuple[str, str]]
"""Name and text of the schemas that a schema uses, in dependency order."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The version of a registry's subject that a file with a schema was made from."""

    subject: str
    version: int
    schema_id: int


ENVELOPE = frozenset(("op", "after"))
"""The fields of a change, as Debezium writes it, that has the row in ``after``."""

NO_ROW_FIELDS = (
    "the schema has op and after, but does not declare the fields of the row in after: read it as "
    "JSON, and declare them"
)
"""The reason if a change has its row as text, as the connector for MongoDB writes it."""


class FieldError(ValueError):
    """A field of views.toml is wrong or missing."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


# not orjson: it rejects whole numbers of more than 64 bits
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


_SURROGATE = re.compile("[\ud800-\udfff]")

# the strings of a document, and the spaces between its other parts
_TEXT_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')


@dataclass(frozen=True, slots=True, repr=False)
class WrittenJson:
    """A JSON document as a person has written it. A Python value would lose the form of its
    numbers, such as 1e2."""

    text: str

    def __repr__(self) -> str:
        return self.text


def written_json(text: str) -> WrittenJson:
    """The document without spaces between its parts, as `document` writes it. Raises ValueError."""
    parse_json(text)
    return WrittenJson(_TEXT_OR_SPACE.sub(lambda match: match[1] or "", text))


def parse_json(text: str, parse_float: Callable[[str], Any] = float) -> Any:
    """Parse a JSON document. Raises ValueError, also for numbers that JSON does not have, and for
    more than PYTHON_LEVELS levels."""
    check_levels(text.encode(errors="replace"), PYTHON_LEVELS)
    return json.loads(text, parse_constant=_refuse_constant, parse_float=parse_float)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def document(value: Any) -> bytes:
    """A Python value as a JSON document. Raises ValueError."""
    if isinstance(value, WrittenJson):
        return value.text.encode()
    try:
        # the surrogates that are left are halves of pairs
        return _SURROGATE.sub(_escaped, _encode(value)).encode()
    except (TypeError, ValueError, RecursionError) as e:
        raise ValueError(f"not a JSON document: {e}") from None


def _escaped(half: re.Match[str]) -> str:
    return f"\\u{ord(half[0]):04x}"


def identity(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class PythonForm:
    """Keys and values as Python values, in the client. Functions raise ValueError."""

    types: tuple[type, ...] = ()
    """The Python types of a value; empty: any JSON document."""

    to_text: Callable[[Any], bytes] = document
    """The text of a value in a URL, before it is percent-encoded."""

    to_json: Callable[[Any], bytes] = document
    from_json: Callable[[Any], Any] = identity
    key_from_json: Callable[[Any], Any] | None = None
    """As `from_json`, if the Python value of a key differs from that of a value."""

    from_typed: Callable[[str], Any] = written_json
    """A value from the text that people type at a terminal."""

    is_typed_text: bool = False
    """Whether typed text is the value itself, with its blanks."""

    has_one_text: bool = False
    """Whether each value has one textual form."""

    is_ordered: bool = False
    """Whether the order of keys follows from their Python values. UUIDs may be in capitals."""

    lists_bytes: bool = False
    """Whether some keys are listed by their record bytes (`model.formats.listed_keys`)."""

    has_prefixes: bool = False
    """Whether keys can be asked for by prefix, although the format has no codec in the client."""

    identifies_key: bool = True
    """Whether a value is enough to ask for a key; False if the bytes of the record are needed."""


_SAME = object()


@dataclass(frozen=True, slots=True)
class OpenApi:
    """A format in the OpenAPI document."""

    serde: str
    """Kafka's serde, by which clients of KIQR name the format."""

    schema: Mapping[str, Any] | None = None
    """The schema of a key in a URL; None: the format is not for keys."""

    example: Any = None
    """An example of a key in a URL; None: it would depend on a schema."""

    json_example: Any = _SAME
    """An example of a key in a JSON body, if it is not `example`; None: there is no example."""

    def entry(self) -> dict[str, Any]:
        """The entry of `x-formats`."""
        members = {"serde": self.serde, "schema": self.schema, "example": self.example}
        entry = {name: value for name, value in members.items() if value is not None}
        return entry if self.json_example is _SAME else {**entry, "json_example": self.json_example}


class Format:
    """One format. The defaults are those of a format without a schema."""

    name: str
    """As in views.toml."""

    codec: Codec | None = None
    """None if the codec depends on a schema."""

    for_keys: ClassVar[bool] = True
    python: PythonForm = PythonForm()
    fields: ClassVar[Mapping[str, str]] = {}
    """Its fields in views.toml, without `key_` or `value_`, and their meanings."""

    openapi: OpenApi

    serdes: frozenset[str] = frozenset()
    """Kafka's serdes that read it, without the serdes of bytes, which read all formats."""

    has_own_serdes: ClassVar[bool] = False
    """Whether applications have serdes of their own for it."""

    derived: frozenset[Kind] = frozenset()
    """The types of keys and values that Spark can write in it, for `[views.NAME.derive]`."""

    has_objects: ClassVar[bool] = False
    """Whether a value can have several fields, which Spark writes as JSON."""

    has_nulls: ClassVar[bool] = False
    """Whether a value can be null, or a change of a program such as Debezium."""

    media_types: ClassVar[tuple[str, ...]] = ()
    """The media types of keys in the body of a search, apart from `application/octet-stream`."""

    quotes_numbers: ClassVar[bool] = False
    """Whether some numbers are texts of digits in JSON, as its codecs say."""

    declares_fields: ClassVar[bool] = False
    """Whether a schema of the format has the names and types of the fields of its values."""

    file_suffix: ClassVar[str] = ""
    """The suffix of a file with a schema, next to views.toml; in a folder, `<id><suffix>`."""

    registry_type: ClassVar[str] = ""
    """`schemaType` in a registry; empty: no registry has schemas of this format."""

    registry_form: ClassVar[str] = ""
    """The parameter `format` with which a registry is asked for schemas; empty: none."""

    # With a schema: see `SchemaFormat`

    def definition(
        self, part: str, fields: Mapping[str, str], read: Read, has_source: bool
    ) -> str | None:
        """`View.key_schema` or `View.value_schema`, from the fields in views.toml. Raises
        FieldError.

        `part`: "key" or "value". `has_source`: whether there is a table [schemas].
        """
        return None

    def declared_fields(
        self, content: bytes, message: str, *, unwrap: bool = False
    ) -> Iterator[DeclaredField]:
        """The fields in the file of a schema that derived views can use, if `declares_fields`.
        `message`: the type of a value, if the file may have several. `unwrap`: if a value is a
        change with the row in `after`, the fields of the row. Raises ValueError."""
        raise NotImplementedError

    def schema_file(self, text: str, references: References, origin: Origin) -> bytes:
        """The content of a file with a schema of a registry, which needs no other file, if
        `declares_fields`. Raises ValueError."""
        raise NotImplementedError

    def origin(self, content: bytes) -> Origin | None:
        """The origin in a file that `schema_file` has made; None for other files."""
        return None

    def is_registry_form(self, text: str) -> bool:
        """Whether a registry has answered with schemas in `registry_form`."""
        return True

    def json_fields(self, definition: str) -> Iterator[DeclaredField]:
        """The fields that a schema from `definition` gives the JSON of values, by their names
        there; none if the schema is not one of objects."""
        return iter(())

    def registered_fields(self, text: str, references: References) -> Iterator[DeclaredField]:
        """As `json_fields`, for a schema as a registry has it (see `SchemaFormat`), if
        `declares_fields`. Raises ValueError."""
        raise NotImplementedError

    def codec_with(self, definition: str | None, source: SchemaSource | None) -> Codec:
        """The codec for a schema from `definition`."""
        assert self.codec is not None
        return self.codec

    def is_routed(self, definition: str | None) -> bool:
        """Whether the proxy encodes keys from their text (proxy/key_codec.lua)."""
        return True

    def fingerprint(self, definition: str) -> str:
        """A short name of the schema; CONFLUENT stays unchanged."""
        return definition


class SchemaFormat(Format):
    """A format whose records have a schema: from a file, or one that each record names."""

    openapi = OpenApi("ByteArraySerde", {"type": "string"})
    has_own_serdes = True
    has_nulls = True
    quotes_numbers = True

    def definition(
        self, part: str, fields: Mapping[str, str], read: Read, has_source: bool
    ) -> str | None:
        field, name = f"{part}_schema", fields["schema"]
        if not name:
            raise FieldError(part, f'{field} is missing: set a file name, or "{CONFLUENT}"')
        if name == CONFLUENT:
            if not has_source:
                raise FieldError(field, 'the table [schemas] is missing: set registry = "http://…"')
            return CONFLUENT
        try:
            return self.definition_of(read(name), part, fields)
        except FieldError:
            raise
        except ValueError as e:
            raise FieldError(field, f'"{name}": {e}') from None

    @abstractmethod
    def definition_of(self, content: bytes, part: str, fields: Mapping[str, str]) -> str:
        """The definition from a schema file. Raises ValueError, FieldError."""

    @abstractmethod
    def parse_file(self, content: bytes) -> Schema:
        """A schema from a file of a folder. Raises ValueError."""

    @abstractmethod
    def parse_registered(self, text: str, references: References) -> Schema:
        """A schema from a registry. Raises ValueError."""
