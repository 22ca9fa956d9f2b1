"""The result of a view on one kind of cluster: a line of the table and of pipelines.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table


@dataclass
class Result:
    """`kills`: in a micro-batch of the view, of a process that it uses. `rows`: keys of the view
    topic after compaction. `equal`: to the batch job's topic. `late_rows`: records that are too
    late. `kinds` and `phases` count the kills. `records`, `tombstones` and `malformed` are numbers
    of the raw topic; malformed records include tombstones and late ones."""

    view: str
    cluster: str
    kills: int = 0
    rows: int = 0
    equal: bool = False
    late_rows: int = 0
    records: int = 0
    tombstones: int = 0
    malformed: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
    seed: int = 0
    broker_away_s: float = 0.0
    errors: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.equal and not self.errors

    def document(self) -> dict[str, Any]:
        return asdict(self)


def table(results: Sequence[Result]) -> Table:
    """One line per view and cluster; those that are not right are red."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("view", no_wrap=True)
    made.add_column("cluster", no_wrap=True)
    for name in ("kills", "records", "rows", "late"):
        made.add_column(name, justify="right")
    made.add_column("equal")
    made.add_column("")
    for each in results:
        made.add_row(
            each.view,
            each.cluster,
            *(f"{n:,}" for n in (each.kills, each.records, each.rows, each.late_rows)),
            "yes" if each.equal else "NO",
            "; ".join(each.errors),
            style="" if each.ok else "red",
        )
    return made


def write(results: Sequence[Result], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    documents = [each.document() for each in results]
    path.write_text(json.dumps(documents, indent=1, ensure_ascii=False) + "\n")
