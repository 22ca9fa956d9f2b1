"""Receives commands for views: pause, resume, restart, rebuild (``model.pipelines.commands``)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from model.pipelines.commands import (
    GROUP_SUFFIX,
    PAUSE,
    REBUILD,
    PipelineCommand,
    parse_command,
)
from model.pipelines.status import Heartbeat, parse_heartbeat
from spark.kafka_admin import TopicPartition
from spark.supervision.events import CommandReceived, Events
from spark.view import View


class CommittedMetadata(Protocol):
    """The metadata of committed offsets (``spark.kafka_admin``). Raises OSError or Py4JError, and
    PermissionError if the job may not read a group."""

    def metadata(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, str]]: ...


class PipelineCommands:
    """The commands for the views of a job, and which of them were carried out.

    The last command of a view stays in its consumer group, so a paused view is also paused after a
    restart of the job, and a rebuild that was not carried out is carried out then. If the group has
    expired, the view's last heartbeat says whether it was paused.

    ``poll`` is called in the heartbeat thread, the other methods in the supervisor's.
    """

    def __init__(
        self, groups: CommittedMetadata, views: Collection[View], prefix: str, events: Events
    ) -> None:
        self._groups = groups
        self._names = {prefix + view.name: view.name for view in views}
        self._partitions = {view.name: TopicPartition(view.topic, 0) for view in views}
        self._events = events
        self._received: dict[str, str | None] = {}  # view ► id of the last command
        self._carried_out: dict[str, str | None] = {}
        self._paused: set[str] = set()

    def at_start(self) -> dict[str, PipelineCommand]:
        """The commands to begin with, by view: pauses and rebuilds. Without the permission to read
        a view's heartbeats, a rebuild counts as carried out. Raises as ``metadata``."""
        heartbeats = {name: self._heartbeat(group) for group, name in self._names.items()}
        commands: dict[str, PipelineCommand] = {}
        for name, command in self._fetch().items():
            heartbeat = heartbeats.get(name)
            self._received[name] = None if command is None else command.id
            self._carried_out[name] = None if heartbeat is None else heartbeat.command
            if command is None:
                if heartbeat is not None and heartbeat.paused:
                    commands[name] = PipelineCommand(heartbeat.command or "", PAUSE)
            elif command.action == PAUSE or (
                command.action == REBUILD
                and heartbeat is not None
                and heartbeat.command != command.id
            ):
                commands[name] = command
            else:
                self._carried_out[name] = command.id
        return commands

    def poll(self) -> None:
        """Sends an event for each new command. If ``at_start`` could not read the commands, the
        commands that the first call reads may have been carried out, so they do not count as
        new."""
        for name, command in self._fetch().items():
            id_ = None if command is None else command.id
            last = self._received.setdefault(name, id_)
            if command is not None and id_ != last:
                self._received[name] = id_
                self._events.put(CommandReceived(name, command))

    def carried_out(self, view: str, command: PipelineCommand) -> None:
        self._carried_out[view] = command.id or None
        if command.action == PAUSE:
            self._paused.add(view)
        else:
            self._paused.discard(view)

    def heartbeat_fields(self, view: str) -> dict[str, object]:
        """The fields of the view's heartbeat about commands; safe in any thread."""
        paused = {"paused": True} if view in self._paused else {}
        return {"command": self._carried_out.get(view), **paused}

    def _heartbeat(self, group: str) -> Heartbeat | None:
        """The last heartbeat of the view; None if there is none, or if the job may not read its
        group."""
        try:
            heartbeats = map(parse_heartbeat, self._groups.metadata([group])[group].values())
        except PermissionError:
            return None
        return max(filter(None, heartbeats), key=lambda heartbeat: heartbeat.at_ms, default=None)

    def _fetch(self) -> dict[str, PipelineCommand | None]:
        """The last command of each view. A group may also have a command for an earlier topic of
        the view."""
        names_by_group = {group + GROUP_SUFFIX: name for group, name in self._names.items()}
        fetched = self._groups.metadata(names_by_group)
        return {
            name: parse_command(fetched.get(group, {}).get(self._partitions[name], ""))
            for group, name in names_by_group.items()
        }
