"""Whether `null_deletes` and `unwrap` fit the other fields of an entry of views.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from model.formats.registry import FORMATS, format_of


def contradicting_rows(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The fields that do not fit, each with the reason. `values`: the values of all fields, as
    text; empty if not set."""
    null_deletes, unwrap = values["null_deletes"] == "true", values["unwrap"]
    if not (null_deletes or unwrap):
        return
    field = "unwrap" if unwrap else "null_deletes"
    if not format_of(values["value"]).has_nulls:
        names = " or ".join(f'"{name}"' for name, format_ in FORMATS.items() if format_.has_nulls)
        yield field, f"allowed only with value = {names}"
    if values["push"]:
        yield "push", f"not with {field}: a push has rows"
    if unwrap and null_deletes:
        yield "null_deletes", "unwrap has deletes of its own: omit it"
    if unwrap and values["append"] == "on":
        yield "append", "not with unwrap: clients would have to append changes, not rows"
