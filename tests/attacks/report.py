"""The table of results, and attacks.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from tests.attacks.measuring import Result


def table(results: Sequence[Result]) -> Table:
    """One line per attack; those that missed a target are red."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("attack", no_wrap=True)
    names = ("baseline p99 ms", "honest p99 ms", "errors", "peak MB", "grew MB", "recovered s")
    for name in names:
        made.add_column(name, justify="right")
    made.add_column("")
    for each in results:
        made.add_row(
            each.attack,
            f"{each.baseline_p99_ms:.1f}",
            f"{each.honest_p99_ms:.1f}",
            str(each.honest_errors),
            f"{each.peak_rss_mb:.0f}",
            f"{each.growth_mb:.0f}",
            f"{each.recovered_s:.2f}",
            remark(each),
            style="red" if each.missed else "",
        )
    return made


def remark(result: Result) -> str:
    """Missed targets with their reasons, or what the attacker got."""
    if result.missed:
        return "; ".join([f"MISSED: {'; '.join(result.missed)}", *result.why])
    return ", ".join(f"{count} × {what}" for what, count in sorted(result.outcomes.items()))


def write(results: Sequence[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    documents = [each.document() for each in results]
    path.write_text(json.dumps(documents, indent=1, ensure_ascii=False) + "\n")
