"""Which commands for views are carried out. The rest is tested with a real job."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from queue import SimpleQueue

import pytest

from model.pipelines.commands import (
    GROUP_SUFFIX,
    PAUSE,
    REBUILD,
    RESTART,
    RESUME,
    PipelineCommand,
    to_metadata,
)
from spark.kafka_admin import TopicPartition
from spark.supervision.commands import PipelineCommands
from spark.supervision.events import CommandReceived, Event
from spark.views import VIEWS

VIEW = VIEWS["word-count"]
FIRST = TopicPartition(VIEW.topic, 0)


class FakeGroups:
    def __init__(self) -> None:
        self.groups: dict[str, str] = {}
        self.of_earlier_topics: dict[str, str] = {}
        self.denied = ""

    def metadata(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, str]]:
        if self.denied in groups:
            raise PermissionError(f"GroupAuthorizationException: {self.denied}")
        earlier = TopicPartition("earlier", 0)
        return {
            group: {
                partition: of_partition[group]
                for partition, of_partition in (
                    (earlier, self.of_earlier_topics),
                    (FIRST, self.groups),
                )
                if group in of_partition
            }
            for group in groups
        }


def command(action: str) -> PipelineCommand:
    return PipelineCommand(uuid.uuid4().hex, action)


def heartbeat(**fields: object) -> str:
    text = ",".join(f'"{name}":{value}' for name, value in fields.items())
    return f'{{"state":"stopped","at":1,{text}}}'


@pytest.fixture
def of_job() -> Callable[..., tuple[PipelineCommands, SimpleQueue[Event]]]:
    def make(
        last: PipelineCommand | None, own: str | None
    ) -> tuple[PipelineCommands, SimpleQueue[Event]]:
        groups, events = FakeGroups(), SimpleQueue[Event]()
        if last is not None:
            groups.groups[f"job-{VIEW.name}{GROUP_SUFFIX}"] = to_metadata(last)
        if own is not None:
            groups.groups[f"job-{VIEW.name}"] = own
        return PipelineCommands(groups, [VIEW], "job-", events), events

    return make


def test_a_job_begins_with_what_was_not_carried_out(
    of_job: Callable[..., tuple[PipelineCommands, SimpleQueue[Event]]],
) -> None:
    pause, rebuild = command(PAUSE), command(REBUILD)
    done = heartbeat(command=f'"{rebuild.id}"')
    for last, own, expected in (
        (None, None, {}),
        (None, heartbeat(command="null"), {}),
        # the group of the commands has expired
        (None, heartbeat(command=f'"{pause.id}"', paused="true"), {VIEW.name: pause}),
        (pause, None, {VIEW.name: pause}),
        (pause, heartbeat(command=f'"{pause.id}"'), {VIEW.name: pause}),
        (rebuild, heartbeat(command="null"), {VIEW.name: rebuild}),
        (rebuild, done, {}),
        # of another job, as far as one can know
        (rebuild, None, {}),
        (command(RESUME), heartbeat(command=f'"{pause.id}"', paused="true"), {}),
        (command(RESTART), done, {}),
    ):
        commands, events = of_job(last, own)
        assert commands.at_start() == expected, (last, own)
        commands.poll()
        assert events.empty(), "no command comes twice"


def test_each_command_comes_once(
    of_job: Callable[..., tuple[PipelineCommands, SimpleQueue[Event]]],
) -> None:
    commands, events = of_job(None, None)
    commands.at_start()
    groups: FakeGroups = commands._groups  # type: ignore[assignment]
    pause = command(PAUSE)
    groups.groups[f"job-{VIEW.name}{GROUP_SUFFIX}"] = to_metadata(pause)
    commands.poll()
    commands.poll()
    assert events.get_nowait() == CommandReceived(VIEW.name, pause)
    assert events.empty()
    assert commands.heartbeat_fields(VIEW.name) == {"command": None}
    commands.carried_out(VIEW.name, pause)
    assert commands.heartbeat_fields(VIEW.name) == {"command": pause.id, "paused": True}


def test_a_command_for_an_earlier_topic_of_the_view_does_not_count(
    of_job: Callable[..., tuple[PipelineCommands, SimpleQueue[Event]]],
) -> None:
    """Regression: it hid each command that was sent after the topic of the view was changed."""
    commands, events = of_job(None, None)
    groups: FakeGroups = commands._groups  # type: ignore[assignment]
    group = f"job-{VIEW.name}{GROUP_SUFFIX}"
    groups.of_earlier_topics[group] = to_metadata(command(PAUSE))
    assert commands.at_start() == {}
    resume = command(RESUME)
    groups.groups[group] = to_metadata(resume)
    commands.poll()
    assert events.get_nowait() == CommandReceived(VIEW.name, resume)


def test_a_job_that_may_not_read_the_heartbeats_of_a_view_follows_commands(
    of_job: Callable[..., tuple[PipelineCommands, SimpleQueue[Event]]],
) -> None:
    """Regression: it followed none, and those of the time before its start came later."""
    for action, expected in ((PAUSE, [PAUSE]), (REBUILD, [])):
        commands, events = of_job(command(action), None)
        groups: FakeGroups = commands._groups  # type: ignore[assignment]
        groups.denied = f"job-{VIEW.name}"
        assert [each.action for each in commands.at_start().values()] == expected
        commands.poll()
        assert events.empty()
        groups.groups[f"job-{VIEW.name}{GROUP_SUFFIX}"] = to_metadata(command(RESTART))
        commands.poll()
        assert not events.empty()


def test_commands_that_could_not_be_read_at_the_start_are_not_carried_out_later(
    of_job: Callable[..., tuple[PipelineCommands, SimpleQueue[Event]]],
) -> None:
    """It is not known whether they were. Regression: an old rebuild began again."""
    commands, events = of_job(command(REBUILD), None)
    groups: FakeGroups = commands._groups  # type: ignore[assignment]
    groups.denied = f"job-{VIEW.name}{GROUP_SUFFIX}"
    with pytest.raises(PermissionError):
        commands.at_start()
    groups.denied = ""
    commands.poll()
    assert events.empty()
    groups.groups[f"job-{VIEW.name}{GROUP_SUFFIX}"] = to_metadata(command(RESTART))
    commands.poll()
    assert not events.empty()
