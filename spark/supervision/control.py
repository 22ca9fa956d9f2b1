"""Carries out commands for views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from model.pipelines.commands import PAUSE, REBUILD, RESUME, PipelineCommand
from spark.errors import JobError, summary
from spark.supervision.commands import PipelineCommands
from spark.supervision.moved_keys import MovedKeys
from spark.supervision.progress import ProgressListener
from spark.supervision.rebuilds import Rebuilds
from spark.supervision.scheduler import QueryScheduler
from spark.supervision.status import ViewStatus
from spark.supervision.tombstones import TombstoneGuard


class ViewControl:
    """Pauses, resumes, restarts and rebuilds views. Used by the supervisor's thread."""

    def __init__(
        self,
        scheduler: QueryScheduler,
        progress: ProgressListener,
        commands: PipelineCommands,
        rebuilds: Rebuilds,
        tombstones: TombstoneGuard,
        moved_keys: MovedKeys,
        log: Callable[[str], None],
    ) -> None:
        self._scheduler = scheduler
        self._progress = progress
        self._commands = commands
        self._rebuilds = rebuilds
        self._tombstones = tombstones
        self._moved_keys = moved_keys
        self._log = log
        self._open: dict[str, PipelineCommand] = {}  # by view: until it is started again
        # Views whose rebuild has failed. It may be half done, so these views must not start before
        # a rebuild succeeds.
        self._to_rebuild: set[str] = set()

    def carry_out(self, view: str, command: PipelineCommand) -> None:
        """Begins to carry out a command. ``started`` completes it, except for a pause."""
        self._log(f"{view}: {command.action}")
        if command.action == PAUSE:
            self._open.pop(view, None)
            self._scheduler.pause(view)
            self._progress.paused(view)
            self._commands.carried_out(view, command)
        elif command.action == RESUME and not self._scheduler.is_paused(view):
            self._commands.carried_out(view, command)
        else:
            self._open[view] = command
            is_rebuild = command.action == REBUILD or view in self._to_rebuild
            self._start_again(view, partial(self._begin_rebuild, view) if is_rebuild else None)

    def started(self, view: str) -> None:
        """Call when the view was started again."""
        command = self._open.pop(view, None)
        if command is not None:
            self._commands.carried_out(view, command)

    def finish_rebuilds(self, statuses: Mapping[str, ViewStatus]) -> None:
        """Deletes old keys of views that were rebuilt and have caught up."""
        for view in self._rebuilds.due(statuses):
            if not self._scheduler.is_stopped(view):
                self._start_again(view, partial(self._delete_old_keys, view))

    def put_in_order(self, statuses: Mapping[str, ViewStatus]) -> None:
        """Writes the results of moved keys again."""
        for view in self._moved_keys.due(statuses):
            if not self._scheduler.is_stopped(view):
                self._start_again(view, partial(self._put_in_order, view))

    def _start_again(self, view: str, before: Callable[[], bool] | None) -> None:
        self._progress.starting_again(view)
        self._scheduler.start_again(view, before)

    def _begin_rebuild(self, view: str) -> bool:
        try:
            self._rebuilds.begin(view)
            self._tombstones.begin(view)
            self._moved_keys.begin(view)
        except (OSError, PySparkException, Py4JJavaError, JobError) as error:
            self._to_rebuild.add(view)
            why = f"cannot rebuild {view}: {summary(str(error))}. This is tried again."
            self._progress.failed(view, why)
            self._log(f"error: {why}")
            return False
        self._to_rebuild.discard(view)
        self._progress.rebuilding(view)
        return True

    def _delete_old_keys(self, view: str) -> bool:
        with self._progress.writing_itself():
            self._rebuilds.delete_old_keys(view)
        return True

    def _put_in_order(self, view: str) -> bool:
        with self._progress.writing_itself():
            self._moved_keys.put_in_order(view)
        return True
