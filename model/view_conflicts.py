"""Conflicts between the views of one views.toml: what they must not share (paths, folders of
pushes, topics of versions of a view), and what views of the same topic must share if clients append
to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from model.toml_lines import view_table
from model.views import View


class Conflict(NamedTuple):
    """`entry`: the name of the table in views.toml. `field`: None if the whole table is meant."""

    entry: str
    field: str | None
    what: str


def conflicts(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """`entries`: the name of each view's table."""
    yield from _versions(views, entries)
    yield from _paths(views, entries)
    yield from _pushes(views, entries)
    yield from _appends(views, entries)


def _versions(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """The versions of a view have different topics and pipelines."""
    first: dict[tuple[str, str, object], str] = {}
    for view, entry in zip(views, entries, strict=True):
        base = view.base
        other = first.setdefault((base, "version", view.version), entry)
        if other != entry:
            yield Conflict(
                entry,
                None,
                f"version {view.version} is declared by {view_table(other)}, too",
            )
        other = first.setdefault((base, "topic", view.topic), entry)
        if other != entry:
            yield Conflict(
                entry,
                "topic",
                f'"{view.topic}" is the topic of {view_table(other)}, too: each version of a view '
                "has its own topic",
            )
        if view.pipeline is None:
            continue
        other = first.setdefault((base, "pipeline", view.pipeline), entry)
        if other != entry:
            yield Conflict(
                entry,
                "pipeline",
                f'"{view.pipeline}" derives the topic of {view_table(other)}, too: each version of '
                "a view has its own pipeline",
            )


def _paths(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """The paths of two views do not overlap, and all versions of a view have the same one."""
    paths: dict[str, tuple[str, str]] = {}  # path -> view and entry
    for view, entry in zip(views, entries, strict=True):
        if view.path is None:
            continue
        for path, (base, other) in paths.items():
            if base == view.base:
                if path != view.path:
                    yield Conflict(
                        entry,
                        "path",
                        f'"{view.path}" is not "{path}", the path of {view_table(other)}: the path '
                        "of a view means its current version, whichever that is",
                    )
            elif f"{view.path}/".startswith(f"{path}/") or f"{path}/".startswith(f"{view.path}/"):
                yield Conflict(
                    entry,
                    "path",
                    f'"{view.path}" overlaps with "{path}" of {view_table(other)}',
                )
        paths[view.path] = (view.base, entry)


def _pushes(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """Two views do not share a folder of pushes. `current.json` names only one push, so a push of
    one view would replace the push of the other view."""
    first: dict[str, str] = {}
    for view, entry in zip(views, entries, strict=True):
        if view.push is None:
            continue
        other = first.setdefault(view.push.rstrip("/"), entry)
        if other != entry:
            yield Conflict(
                entry,
                "push",
                f'"{view.push}" is the folder of {view_table(other)}, too: each view and each '
                "version has its own folder for pushes",
            )


def _appends(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """An append names only the topic. So all views that allow appends to a topic encode alike."""
    first: dict[str, tuple[View, str]] = {}
    for view, entry in zip(views, entries, strict=True):
        if not view.append:
            continue
        other, declared = first.setdefault(view.topic, (view, entry))
        known = _encoding(other)
        for field, value in _encoding(view).items():
            if value != known[field]:
                yield Conflict(
                    entry,
                    "append",
                    f'{view_table(declared)} allows to append to "{view.topic}", too, and {field} '
                    "differs from that of this view: let one of them allow it",
                )


def _encoding(view: View) -> dict[str, str | None]:
    """The fields that determine the bytes and the partition of an appended record."""
    return {
        "key": view.key,
        "key_schema": view.key_schema,
        "value": view.value,
        "value_schema": view.value_schema,
        "partitioner": view.append_partitioner,
    }
