"""The table of results, and faults.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from tests.faults.runner import Result


def table(results: Sequence[Result]) -> Table:
    """One line per scenario; failed ones are red."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("scenario", no_wrap=True)
    for name in ("requests", "wrong", "failed", "silence ms", "redundant after s", "stalled ms"):
        made.add_column(name, justify="right")
    made.add_column("")
    for each in results:
        redundancy = "" if each.redundancy_s is None else f"{each.redundancy_s:.1f}"
        numbers = (each.requests, each.wrong, each.failed, each.longest_silence_ms)
        made.add_row(
            each.scenario,
            *(f"{number:,.0f}" for number in numbers),
            redundancy,
            f"{each.stalled_ms:.0f}",
            remark(each),
            style="" if each.ok else "red",
        )
    return made


def remark(result: Result) -> str:
    """Errors, missed targets and failed requests in one line."""
    if result.skipped:
        return f"skipped: {result.skipped}"
    remarks = []
    if result.error:
        remarks.append(result.error.splitlines()[0])
    remarks += [f"MISSED: {missed}" for missed in result.missed]
    if result.failures:
        remarks.append(", ".join(f"{count} × {what}" for what, count in result.failures.items()))
    return "; ".join(remarks)


def write(results: Sequence[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    documents = [each.document() for each in results]
    path.write_text(json.dumps(documents, indent=1, ensure_ascii=False) + "\n")
