"""Documents with the names that requests use.

Inside an instance, version 1 of a view has the view's name. In a request, this name means the
current version (`model.view_versions`). So a document for clients and proxies describes the current
version under the view's name, and each version under its own. For proxies, a switch is then a
topology in which the view has other partitions on other instances.

A path is in one description only, that of the name to which it leads. Instances with different
files publish the same document for the same epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from model.topology import PARTITION_FIELDS
from model.view_versions import ViewVersions, public_name, split_name


def processors_for_clients(document: dict[str, Any], versions: ViewVersions) -> dict[str, Any]:
    """The document of /processors, from that of the topology."""
    views = {
        name: {**document["views"][stored], **_named(name, versions, stored)}
        for name, stored in _names(document["views"], versions)
    }
    if not versions.with_versions:
        return {**document, "views": views}
    processors = [
        {
            **processor,
            **{
                field: {
                    name: processor[field][stored]
                    for name, stored in _names(processor[field], versions)
                }
                for field in PARTITION_FIELDS
            },
        }
        for processor in document["processors"]
    ]
    return {**document, "views": views, "processors": processors}


def by_request_name(values: Mapping[str, Any], versions: ViewVersions) -> dict[str, Any]:
    """Values of views, by the names of requests."""
    return {name: values[stored] for name, stored in _names(values, versions)}


def described(description: Mapping[str, Any], name: str, versions: ViewVersions) -> dict[str, Any]:
    """The description of a view under a name of requests."""
    base, _ = split_name(name)
    fields = {**description, **_named(name, versions, str(description["name"]))}
    if base in versions.with_versions and "@" not in name:
        fields["versions"] = list(versions.by_base[base])
    return fields


def _named(name: str, versions: ViewVersions, stored: str) -> dict[str, Any]:
    """The fields of a description that depend on the name."""
    base, version = split_name(stored)
    if base not in versions.with_versions:
        return {"path": versions.paths.get(base)}
    path = versions.paths.get(base) if name == base else None
    return {"name": name, "path": path, "version": version}


def _names(by_stored_name: Mapping[str, Any], versions: ViewVersions) -> Iterator[tuple[str, str]]:
    """The names of requests, each with the name inside instances."""
    for stored in by_stored_name:
        base, version = split_name(stored)
        if base not in versions.with_versions:
            yield stored, stored
        elif stored not in versions.dropped:
            yield public_name(base, version), stored
    for base in sorted(versions.with_versions):
        current = versions.current.get(base)
        if current is not None and current in by_stored_name:
            yield base, current
