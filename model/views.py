"""The definition of a view: a named, queryable table made from one topic."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from model.derive.derivation import Derivation
from model.formats.codec import Codec
from model.formats.listed_keys import codec_of_keys
from model.formats.registry import format_of
from model.formats.schemas import SchemaSource
from model.indexes.declaration import DeclaredIndex
from model.keys.codec import KeyFields
from model.kinds.calendar_windows import CalendarWindows
from model.kinds.kind import Kind
from model.kinds.layout import Layout, Range
from model.kinds.registry import kind_of
from model.partitioner import puts_anywhere
from model.problems import ConfigurationError
from model.quotas import Quota
from model.rows.codec import RowCodec
from model.rows.declared_fields import DeclaredField, hash_of_fields
from model.rows.reader import RowReader, RowRule
from model.times import duration_text
from model.toml_lines import view_table

ANY_PARTITION = "none"
"""The partitioner of a topic whose records may be in any partition. Queries ask all of them."""

NEWEST, PARTIAL = "newest", "partial"
"""The values of `same_key`, the meaning of a key in several partitions. NEWEST: the key has moved,
and its newest record is its value. PARTIAL: each partition has a partial result."""

SKIP = "skip"
"""The value of `unreadable`: if the value of a record is not in the view's format, the key keeps
the value of its previous record."""

BOUNDED = "bounded"
"""The value of `scans`: a query of the whole view needs a key, or a range of keys."""

SPARK_GROUP_PREFIX = "queryable-spark-"
"""The Spark job commits the offsets of a view to the consumer group with this prefix and the view's
name."""

CHANGELOG = "-changelog"
"""The suffix of Kafka Streams' changelog topics."""

_SCHEMAS = ("key_schema", "value_schema")
_OMITTED_IF_UNSET = (
    *_SCHEMAS, "window_unit", "window_zone", "same_key", "key_fields", "null_deletes", "unwrap",
    "unreadable",
)  # fmt: skip
_ALWAYS_SHOWN = ("name", "topic", "path", "key", "value", "partitioner", "store")


@dataclass(frozen=True)
class View:
    """A named, queryable table made from one topic."""

    name: str
    topic: str
    path: str | None
    key: str
    value: str
    partitioner: str
    store: str = "key-value"
    window_size: int | None = None  # ms
    window_unit: str | None = None  # of windows of the calendar, which have no size in ms
    window_zone: str | None = None  # their time zone
    window_key: str = "changelog"
    retention: int | None = None  # ms
    persistence: str = "rocksdb"
    key_schema: str | None = None  # `Format.definition`: a schema, or CONFLUENT
    value_schema: str | None = None
    same_key: str | None = None  # NEWEST, PARTIAL; None if not set
    key_fields: tuple[str, ...] | None = None  # names of fields: its keys are documents
    null_deletes: bool | None = None  # whether a null in the value's format deletes
    unwrap: str | None = None  # the program whose changes the values are: DEBEZIUM
    unreadable: str | None = None  # SKIP; None: reads of its key are refused
    append: bool = dataclasses.field(default=False, compare=False)  # whether POST is allowed
    pipeline: str | None = dataclasses.field(default=None, compare=False)  # consumer group
    spark_view: str | None = dataclasses.field(default=None, compare=False)  # its Python file
    partitions: int | None = dataclasses.field(default=None, compare=False)  # if Spark creates it
    trigger: str = dataclasses.field(default="", compare=False)  # the trigger of Spark's query
    quota: Quota | None = dataclasses.field(default=None, compare=False)
    derivation: Derivation | None = dataclasses.field(default=None, compare=False, repr=False)
    push: str | None = dataclasses.field(default=None, compare=False)  # folder of its pushes
    fields: tuple[DeclaredField, ...] = dataclasses.field(default=(), compare=False)
    indexes: tuple[DeclaredIndex, ...] = dataclasses.field(default=(), compare=False)
    scans: str = dataclasses.field(default="", compare=False)  # BOUNDED
    meaning: str = dataclasses.field(default="", compare=False)  # of its entries, for people
    schemas: SchemaSource | None = dataclasses.field(default=None, compare=False, repr=False)

    @cached_property
    def hash(self) -> str:
        """The hash of the definition: 16 hexadecimal digits. It changes if a change of the
        definition changes the data or the answers."""
        return hashlib.sha256(orjson.dumps(self._definition())).hexdigest()[:16]

    @property
    def uses_spark(self) -> bool:
        """Whether the entry says how Spark derives the topic."""
        return self.spark_view is not None or self.derivation is not None

    @cached_property
    def base(self) -> str:
        """The name without a version: "orders" of "orders@2" (`model.view_versions`)."""
        return self.name.partition("@")[0]

    @cached_property
    def version(self) -> int:
        """2 of "orders@2"; 1 if the name has no version."""
        return int(self.name.partition("@")[2] or 1)

    # the fragments of the OpenAPI document ask for these (`x-views`)

    @property
    def is_later_version(self) -> bool:
        return self.version > 1

    @property
    def has_pipeline(self) -> bool:
        return bool(self.pipeline)

    @property
    def has_indexes(self) -> bool:
        return bool(self.indexes)

    @cached_property
    def fields_hash(self) -> str:
        """The hash of the declared fields, which are no part of the definition."""
        return hash_of_fields(self.fields)

    @cached_property
    def key_codec(self) -> Codec:
        codec = format_of(self.key).codec_with(self.key_schema, self.schemas)
        return KeyFields(codec, self.key_fields) if self.key_fields else codec_of_keys(codec)

    @cached_property
    def record_codec(self) -> Codec:
        """The codec of the values of records."""
        return format_of(self.value).codec_with(self.value_schema, self.schemas)

    @cached_property
    def value_codec(self) -> Codec:
        """The codec of the view's values: those of records, or the rows in them."""
        return self.record_codec if self.unwrap is None else RowCodec(self.record_codec)

    @cached_property
    def row_reader(self) -> RowReader | None:
        """The reader of rows in the values of records; None if every value is a row."""
        if self.unwrap is None and not self.null_deletes:
            return None
        return RowRule(self.unwrap, bool(self.null_deletes)).reader(self.record_codec)

    @cached_property
    def as_json(self) -> View:
        """The view as if its values were JSON."""
        return dataclasses.replace(
            self, value="json", value_schema=None, unwrap=None, null_deletes=None
        )

    @property
    def keeps_unreadable(self) -> bool:
        """Whether a record whose value is not in the view's format becomes an unreadable entry."""
        return self.unreadable != SKIP and not self.is_custom

    def codecs(self) -> tuple[Codec, Codec]:
        """The codecs of keys and values. Raises ConfigurationError, which names the view and the
        field, if a codec is a class that is not usable."""
        with self.naming("key"):
            key = self.key_codec
        with self.naming("value"):
            value = self.value_codec
        return key, value

    @contextmanager
    def naming(self, field: str) -> Iterator[None]:
        """Add the view and the field to the message of a ConfigurationError that is raised in this
        context."""
        try:
            yield
        except ConfigurationError as e:
            raise ConfigurationError(f"{view_table(self.name)}, {field}: {e}") from None

    @property
    def is_custom(self) -> bool:
        """Whether its store is a custom class."""
        return self.kind.is_custom

    @property
    def append_partitioner(self) -> str:
        """The partitioner of records that clients append."""
        return "murmur2" if self.partitioner == ANY_PARTITION else self.partitioner

    @property
    def routed_encodings(self) -> tuple[str, ...]:
        """The encodings of keys in URLs from which the proxy can compute the partition. With other
        encodings, the request goes to any instance, which forwards it."""
        if self.partitioner == ANY_PARTITION:
            return ()
        if not format_of(self.key).is_routed(self.key_schema):
            return ("base64url",)
        return ("text", "base64url")

    @cached_property
    def is_partial(self) -> bool:
        """Whether a key in several partitions has a partial result in each.

        This is the default for a changelog: a record is in the partition of its task, and tasks do
        not know each other's results for the same key.
        """
        return self.same_key == PARTIAL or (
            self.same_key is None and self.topic.endswith(CHANGELOG)
        )

    @cached_property
    def kind(self) -> Kind:
        """The kind of its store."""
        return kind_of(self.store)

    @cached_property
    def calendar(self) -> CalendarWindows | None:
        """Its windows, if they are those of the calendar."""
        if self.window_unit is None or self.window_zone is None:
            return None
        return CalendarWindows(self.window_unit, self.window_zone)

    @property
    def window_text(self) -> str | None:
        """The length of its windows, as in views.toml; None if they are points in time."""
        if self.window_size is not None:
            return duration_text(self.window_size)
        return None if self.calendar is None else str(self.calendar)

    def window_end(self, start: int) -> int | None:
        """The end (ms) of the window with this start (ms); None if windows are points in time. All
        ends of windows come from here, because records only have the start."""
        if self.window_size is not None:
            return start + self.window_size
        return None if self.calendar is None else self.calendar.end(start)

    @cached_property
    def layout(self) -> Layout:
        """The mapping of its record keys to stored keys."""
        return self.kind.layout(self)

    @cached_property
    def stray_keys(self) -> Range | None:
        """The stored keys of the empty key, if producers may put its records into any partition
        (`puts_anywhere`). Otherwise None."""
        if not puts_anywhere(self.partitioner, b""):
            return None
        try:
            self.key_codec.check(b"")
        except ValueError:
            return None
        return self.layout.key_range(b"", b"")

    def _definition(self) -> dict[str, Any]:
        """The fields that define the view. Fields that newer versions have added are omitted if
        they are not set, so that the hashes of older views stay the same."""
        return {
            field.name: value
            for field in dataclasses.fields(self)
            if field.compare
            and (
                (value := getattr(self, field.name)) is not None
                or field.name not in _OMITTED_IF_UNSET
            )
        }

    def description(self) -> dict[str, Any]:
        """The public description in /views and /processors. Times are in ms, and fingerprints
        replace schemas."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        formats = {"key_schema": self.key, "value_schema": self.value}
        return {
            name: format_of(formats[name]).fingerprint(value) if name in _SCHEMAS else value
            for name, value in self._definition().items()
            if name in _ALWAYS_SHOWN or value != defaults[name]
        }


@dataclass(frozen=True)
class Deployment:
    """The content of views.toml: the views, the settings of all Kafka clients, and the source of
    schemas by id, which is the URL of a registry or a folder."""

    views: tuple[View, ...]
    kafka: dict[str, str] = dataclasses.field(repr=False)  # unresolved; it may have secrets
    registry: str | None = None
    schema_folder: str | None = None
