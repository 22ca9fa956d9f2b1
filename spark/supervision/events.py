"""Events that Spark's listener thread sends to the supervisor's loop."""

from __future__ import annotations

from queue import SimpleQueue
from typing import NamedTuple

from model.pipelines.commands import PipelineCommand

# ``query`` is ``<view>`` or ``<view>/dead-letters``.


class QueryEnded(NamedTuple):
    """A query has ended. ``error``: Spark's message; None if the query did not fail. ``refused``:
    the job itself did not start the query (``JobError``), and a restart does not help."""

    query: str
    error: str | None
    refused: bool = False


class QueryBegan(NamedTuple):
    """The first micro-batch is committed, or the source has no new records."""

    query: str


class QueryCaughtUp(NamedTuple):
    """The source has no new records, or the last micro-batch took less than a second or had all
    records."""

    query: str


class RowsDropped(NamedTuple):
    """Spark has dropped ``rows`` rows of a view since this start, though they were not late."""

    view: str
    rows: int


class ProgressNotWritten(NamedTuple):
    """The progress file cannot be written."""

    reason: str


class CommandReceived(NamedTuple):
    """A new command for a view has arrived: pause, resume, restart or rebuild."""

    view: str
    command: PipelineCommand


class StopRequested(NamedTuple):
    """SIGTERM or SIGINT arrived."""


Event = (
    QueryEnded
    | QueryBegan
    | QueryCaughtUp
    | RowsDropped
    | ProgressNotWritten
    | CommandReceived
    | StopRequested
)
Events = SimpleQueue[Event]


def dead_letters_of(view: str) -> str:
    """The name of the query that writes the view's dead letters."""
    return f"{view}/dead-letters"


def queries_of(view: str) -> tuple[str, str]:
    """The names of the view's queries."""
    return view, dead_letters_of(view)


def view_of(query: str) -> str:
    """The view's name in a query's name."""
    return query.partition("/")[0]
