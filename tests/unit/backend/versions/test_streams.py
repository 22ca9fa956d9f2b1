"""A stream of changes is of one version of a view, and ends with a switch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from backend.wire.answer import Header
from model.view_versions import VersionState
from tests.support.in_process.versioned import KEYS, Deployment, Said


def stream(
    made: Deployment,
    target: str,
    last_id: str = "",
    then: Any = None,
    more_headers: Sequence[Header] = (),
) -> Said:
    """The events of a stream until it ends by itself; `then` runs after the first event."""
    headers = [(b"last-event-id", last_id.encode())] if last_id else []
    headers += more_headers

    async def run() -> Said:
        def on_chunk(answer: Said) -> None:
            if answer.body.count(b"\n\n") == 1 and then is not None:
                then()

        async with asyncio.timeout(5):
            return await made.request("b1", "GET", target, b"", headers, on_chunk)

    return asyncio.run(run())


def key_of(made: Deployment, instance: str) -> str:
    """A key whose partitions of both versions an instance has."""
    router = made.routers[instance]
    return next(
        key
        for key in KEYS
        if all(
            router.fast_path.answer_now(b"/views/orders@%d/keys/%b" % (v, key.encode()))
            for v in (1, 2)
        )
    )


def test_a_stream_of_changes_ends_with_a_switch(made: Deployment) -> None:
    """Its client opens it again, and gets the value of the new version, whatever it saw before."""
    key = key_of(made, "b1")
    before = stream(made, f"/o/{key}/changes", then=lambda: made.switch(2))
    assert before.version == 1
    assert b'"v":1' in before.body
    last_id = before.body.split(b"\n")[0].removeprefix(b"id: ").decode()
    after = stream(made, f"/o/{key}/changes", last_id, then=lambda: made.switch(1))
    assert after.version == 2
    assert b'"v":2' in after.body
    last_id = after.body.split(b"\n")[0].removeprefix(b"id: ").decode()
    assert last_id.startswith("2/")
    again = stream(made, f"/o/{key}/changes", last_id, then=lambda: made.switch(2))
    assert b'"v":1' in again.body


def test_a_stream_that_is_being_opened_ends_with_a_switch(made: Deployment) -> None:
    forwarding: Any = made.routers["b1"].keys._forwarding

    async def read(follow: Any, _: Any) -> Any:
        made.switch(2)
        return follow()

    forwarding.read = read
    answer = stream(made, f"/o/{key_of(made, 'b1')}/changes")
    assert (answer.status, answer.version, answer.body) == (200, 1, b"")


def test_a_stream_ends_if_the_current_version_is_unknown_here(made: Deployment) -> None:
    key = key_of(made, "b1")
    unknown = VersionState(3, 2, (), 1)
    before = stream(
        made,
        f"/o/{key}/changes",
        then=lambda: made.contexts["b1"].group.apply_versions({"orders": unknown}),
    )
    assert before.version == 1
    assert made.ask(f"/o/{key}/changes").json["code"] == "version-unknown"


def test_a_stream_of_a_named_version_does_not_end(made: Deployment) -> None:
    key = key_of(made, "b1")

    async def run() -> Said:
        answered = asyncio.Event()
        opened: list[Said] = []

        def on_chunk(answer: Said) -> None:
            opened.append(answer)
            answered.set()

        target = f"/views/orders@1/keys/{key}/changes"
        task = asyncio.create_task(made.request("b1", "GET", target, on_chunk=on_chunk))
        await asyncio.wait_for(answered.wait(), 5)
        made.switch(2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        made.routers["b1"].drain()
        return await asyncio.wait_for(task, 5)

    assert asyncio.run(run()).version == 1


def test_a_stream_names_its_push_and_resumes_in_it(made: Deployment) -> None:
    key = key_of(made, "b1")
    opened = made.contexts["b1"].store_partitions.all()
    for each in opened:
        each.metadata = replace(each.metadata, push="one")

    def end() -> None:
        for each in opened:
            each.listeners.end_where(lambda _: True)

    def named(push: str) -> Said:
        header = [(b"view-push", push.encode())] if push else []
        target = f"/views/orders@1/keys/{key}/changes"
        return stream(made, target, last_id, end, header)

    last_id = ""
    first = named("")
    assert first.named["view-push"] == "one"
    last_id = first.body.split(b"\n")[0].removeprefix(b"id: ").decode()
    assert named("one").body == b": nothing new\n\n"
    assert [named(other).body for other in ("", "two")] == [first.body] * 2
