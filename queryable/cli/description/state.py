"""The size, lag, dead letters and rates of a view, from the document of the admin page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from queryable.cli.values import seconds_text

PATH = "/admin/topology.json"


@dataclass(frozen=True, slots=True)
class ViewState:
    """Sums over the partitions. `lag` is None if the lag of a partition is not known. `made_at`:
    when the deployment made the document, ms."""

    partitions: int
    answerable: int
    entries: int
    size_bytes: int
    dead_letters: int
    unreadable_values: int
    unreadable_keys: int
    lag: int | None
    position: int
    made_at: int

    @classmethod
    def from_document(cls, view: str, document: Mapping[str, Any]) -> ViewState | None:
        """The state in the document of the admin page; None if it does not have the view."""
        placement = placement_of(view, document)
        return None if placement is None else cls._from_placement(placement, document["made_at"])

    @classmethod
    def _from_placement(cls, placement: list[Mapping[str, Any]], made_at: int) -> ViewState:
        def total(name: str) -> int:
            return sum(partition.get(name) or 0 for partition in placement)

        lags = [partition.get("lag") for partition in placement]
        return cls(
            len(placement),
            sum(bool(partition.get("answered_by")) for partition in placement),
            total("entries"),
            total("size_bytes"),
            total("dead_letters"),
            total("unreadable_values"),
            total("unreadable_keys"),
            None if None in lags else total("lag"),
            total("position"),
            made_at,
        )

    def records_per_second(self, before: ViewState | None) -> float | None:
        """The rate at which records were read from the topic; None without a measurement."""
        if before is None:
            return None
        seconds = (self.made_at - before.made_at) / 1000
        return max(self.position - before.position, 0) / seconds if seconds > 0 else None

    def document(self, before: ViewState | None) -> dict[str, Any]:
        """The JSON of `describe`. `before`: None if no rates are measured."""
        return {
            "answerable": self.answerable,
            "entries": self.entries,
            "size_bytes": self.size_bytes,
            "dead_letters": self.dead_letters,
            "unreadable_values": self.unreadable_values,
            "unreadable_keys": self.unreadable_keys,
            "lag": self.lag,
            "records_per_second": self.records_per_second(before),
        }


def placement_of(view: str, document: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The partitions of a view in the document of the admin page; None if it does not have it."""
    for view_document in document.get("views", ()):
        name = view_document["name"]
        if name == view or (view_document.get("current") and name.partition("@")[0] == view):
            placement: list[Mapping[str, Any]] = view_document["placement"]
            return placement
    return None


def state_lines(document: Mapping[str, Any]) -> dict[str, str]:
    """The state in `document` (`ViewState.document`), as lines of text."""
    rate, job = document["records_per_second"], document.get("job_records_per_second")
    rates = ["not measured" if rate is None else f"{rate:,.1f} records/s read from the topic"]
    if job is not None:
        rates.append(f"{job:,.1f} records/s read by the job")
    lag = document["lag"]
    names = {"job_seconds_left": "job done in", "rebuild_seconds": "rebuild takes"}
    estimates = {
        text: seconds_text(document[name]) for name, text in names.items() if document.get(name)
    }
    return {
        "entries": f"about {document['entries']:,}",
        "size": bytes_text(document["size_bytes"]),
        "answerable": f"{document['answerable']} partitions",
        "lag": "unknown" if lag is None else f"{lag:,} records",
        "dead letters": _dead_letters(document),
        "rates": ", ".join(rates),
        **estimates,
    }


def _dead_letters(document: Mapping[str, Any]) -> str:
    """The number of dead letters, and of those with an unreadable value or key."""
    number = f"{document['dead_letters']:,}"
    values, keys = document["unreadable_values"], document["unreadable_keys"]
    if not values and not keys:
        return number
    return f"{number}: {values:,} unreadable values, {keys:,} unreadable keys"


def bytes_text(size: int) -> str:
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
