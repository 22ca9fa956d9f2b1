"""`key_fields` in an entry of views.toml, and whether it fits the other fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from model.formats.registry import SCHEMA_FORMATS
from model.formats.schemas import CONFLUENT
from model.keys.codec import MAX_FIELDS


def parse_key_fields(names: Any) -> tuple[str, ...]:
    """The names of the fields. Raises ValueError."""
    if (
        not isinstance(names, list)
        or not all(isinstance(name, str) and name for name in names)
        or not 1 <= len({*names}) == len(names) <= MAX_FIELDS
    ):
        raise ValueError(
            f'it must be a list of 1 to {MAX_FIELDS} different names, such as ["id"] or '
            '["order.id"]'
        )
    return tuple(names)


def contradicting_key_fields(
    values: Mapping[str, str],
    key_schema: str | None,
    any_partition: str,
    stores: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """The fields that do not fit `key_fields`, each with the reason. `values`: the values of all
    fields, as text. `stores`: the kinds of store whose record keys have no times."""
    documents = ("json", *(schema_format.name for schema_format in SCHEMA_FORMATS))
    if values["key"] not in documents:
        allowed = " or ".join(f'"{name}"' for name in documents)
        yield "key_fields", f"only with key = {allowed}, whose keys have fields"
    if key_schema not in (None, CONFLUENT):
        yield "key_schema", f'with key_fields it must be "{CONFLUENT}"'
    if values["partitioner"] != any_partition:
        yield (
            "partitioner",
            f'omit it: with key_fields, it is "{any_partition}", because the partition of a key '
            "does not follow from its fields",
        )
    if values["store"] not in stores:
        yield "store", f"with key_fields, it is {' or '.join(stores)}"
    if values["append"] == "on":
        yield "append", "not with key_fields, which do not say how the bytes of a key are written"
