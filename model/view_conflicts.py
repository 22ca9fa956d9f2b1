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
    message: str


def conflicts(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """`entries`: the name of each view's table."""
    yield from _versions(views, entries)
    yield from _paths(views, entries)
    yield from _pushes(views, entries)
    yield from _appends(views, entries)


def _versions(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """The versions of a view have different topics and pipelines."""
    entries_by_value: dict[tuple[str, str, object], str] = {}
    for view, entry in zip(views, entries, strict=True):
        base = view.base
        earlier = entries_by_value.setdefault((base, "version", view.version), entry)
        if earlier != entry:
            yield Conflict(
                entry,
                None,
                f"version {view.version} is declared by {view_table(earlier)}, too",
            )
        earlier = entries_by_value.setdefault((base, "topic", view.topic), entry)
        if earlier != entry:
            yield Conflict(
                entry,
                "topic",
                f'"{view.topic}" is the topic of {view_table(earlier)}, too: each version of a '
                "view has its own topic",
            )
        if view.pipeline is None:
            continue
        earlier = entries_by_value.setdefault((base, "pipeline", view.pipeline), entry)
        if earlier != entry:
            yield Conflict(
                entry,
                "pipeline",
                f'"{view.pipeline}" derives the topic of {view_table(earlier)}, too: each version '
                "of a view has its own pipeline",
            )


def _paths(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """The paths of two views do not overlap, and all versions of a view have the same one."""
    paths: dict[str, tuple[str, str]] = {}  # path -> view and entry
    for view, entry in zip(views, entries, strict=True):
        if view.path is None:
            continue
        for path, (base, earlier) in paths.items():
            if base == view.base:
                if path != view.path:
                    yield Conflict(
                        entry,
                        "path",
                        f'"{view.path}" is not "{path}", the path of {view_table(earlier)}: all '
                        "versions of a view have the same path, which leads to the current version",
                    )
            elif f"{view.path}/".startswith(f"{path}/") or f"{path}/".startswith(f"{view.path}/"):
                yield Conflict(
                    entry,
                    "path",
                    f'"{view.path}" overlaps with "{path}" of {view_table(earlier)}',
                )
        paths[view.path] = (view.base, entry)


def _pushes(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """Two views do not share a folder of pushes. `current.json` names only one push, so a push of
    one view would replace the push of the other view."""
    entries_by_folder: dict[str, str] = {}
    for view, entry in zip(views, entries, strict=True):
        if view.push is None:
            continue
        earlier = entries_by_folder.setdefault(view.push.rstrip("/"), entry)
        if earlier != entry:
            yield Conflict(
                entry,
                "push",
                f'"{view.push}" is the folder of {view_table(earlier)}, too: each view and each '
                "version has its own folder for pushes",
            )


def _appends(views: tuple[View, ...], entries: tuple[str, ...]) -> Iterator[Conflict]:
    """An append names only the topic. So all views that allow appends to a topic must encode a
    record in the same way."""
    views_by_topic: dict[str, tuple[View, str]] = {}
    for view, entry in zip(views, entries, strict=True):
        if not view.append:
            continue
        earlier_view, earlier = views_by_topic.setdefault(view.topic, (view, entry))
        expected = _encoding(earlier_view)
        for field, value in _encoding(view).items():
            if value != expected[field]:
                yield Conflict(
                    entry,
                    "append",
                    f'{view_table(earlier)} allows appends to "{view.topic}", too, but its '
                    f"{field} differs from that of this view: allow appends in one of them only",
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
