"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queryable import View
from queryable.console.config import Common
from queryable.console.values import typed
from queryable.core.errors import QueryableError

# s; of a shell that waits for a completion
_PATIENCE = 1.0


def complete_view(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of views that begin so; none if the deployment does not say."""
    try:
        with Common(ctx.params.get("url"), _PATIENCE).client() as client:
            return sorted(v.name for v in client.views() if v.name.startswith(incomplete))
    except QueryableError:
        return []


ViewName = Annotated[str, typer.Argument(metavar="VIEW", autocompletion=complete_view)]
Order = Annotated[str, typer.Option("--order", help="asc or desc.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")]
StaleOption = Annotated[
    str | None, typer.Option("--stale", help="allow, or never: the active alone.")
]


def bound(text: str | None, view: View) -> Any:
    """A key that ends a range, if there is one; BadUse."""
    return None if text is None else typed(text, view.key)


def prefix_of(text: str | None, view: View) -> str | bytes | None:
    """BadUse of the client says which keys have none."""
    if text is None or view.key.name != "bytes":
        return text
    return text.encode("utf-8", "surrogateescape")
