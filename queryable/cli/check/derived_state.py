"""What grows in the state of derived views. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from model.views import View
from queryable.cli.check.findings import Finding, ok


def check_state(view: View) -> Iterator[Finding]:
    """About a derived view whose state is kept for events of any time."""
    derivation = view.derivation
    if derivation is None or derivation.time is None or derivation.time.before_s is not None:
        return
    rows = [derivation.shape.removesuffix("s")] if derivation.shape != "keys" else []
    rows += ["identity"] if derivation.identity else []
    if derivation.is_map or not rows:
        return
    yield ok(
        f"view {view.name}",
        f"Spark's job keeps the state of each {' and '.join(rows)}, because events of any time "
        'count; lateness = "1d" would free it, and make older events dead letters '
        "(docs/spark/derived-views.md#old-events)",
    )
