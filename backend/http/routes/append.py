"""`POST /topics/{topic}/records`: append a record to a topic whose view allows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import orjson

from backend.cluster.group_state import VIEW_VERSION
from backend.http.limits.bodies import require_json
from backend.http.paths import undecided
from backend.http.request import Request
from backend.ingest.appender import NotTaken, QueueFull, RecordTooLarge
from backend.instance.context import InstanceContext
from backend.queries.key_bodies import parse_members, record_key
from backend.queries.point import ViewReads
from backend.wire.answer import JSON, Answer
from model.formats.base64url import from_base64url
from model.partitioner import partition_of
from model.problems import BadRequest, Conflict, NotFound, Problem, Unavailable
from model.view_versions import split_name
from model.views import View


class AppendRoute:
    """Appends records to the topics of views with `append = "on"`, in the formats of the view."""

    def __init__(
        self,
        context: InstanceContext,
        reads: dict[str, ViewReads],
        meant: Callable[[View, bytes], Awaitable[bytes]],
    ) -> None:
        """`meant`: see `KeyRoutes`."""
        self._context = context
        self._meant = meant
        self._reads = {reads[view.name].view.topic: reads[view.name]
                       for view in context.views.values() if view.append}  # fmt: skip

    async def append(self, request: Request) -> Answer:
        """Answers `{"partition": p, "offset": o}` once the broker has stored the record.

        Raises BadRequest, Conflict, NotFound, UnsupportedMediaType, Unavailable.
        """
        topic = request.more["topic"]
        reads = self._reads.get(topic)
        version = request.header(VIEW_VERSION)
        if version is not None:
            self._check_version(topic, version)
        if reads is None:
            raise self._absent(topic)
        if not self._context.group.versions.is_here(reads.view):
            # the record would be written in a form that most instances cannot read
            raise Unavailable(
                "definition-differs",
                f"View {reads.view.name} is declared in another way here than on most instances. "
                "Nothing was written. Retry.",
            )
        require_json(request.headers)
        members = parse_members(request.body, required=("key",), optional=("value",))
        key = await self._meant(reads.view, record_key(reads, *members["key"]))
        value = None if "value" not in members else _record_value(reads.view, *members["value"])
        partition = self._partition(reads.view, key)
        request.details["partition"] = partition
        offset = await self._append(topic, partition, key, value)
        request.details["offset"] = offset
        return Answer(200, [JSON], orjson.dumps({"partition": partition, "offset": offset}))

    def _absent(self, topic: str) -> Problem:
        """Why this instance takes no records for the topic: Unavailable if others may take them."""
        context = self._context
        if not context.group.known:
            return Unavailable(
                "no-topology",
                f"This instance does not allow appending to topic {topic}, and has not joined its "
                "group yet, so it does not know whether others do. Nothing was written. Retry.",
            )
        for name, placed in context.group.topology.views.items():
            view = context.views.get(name)
            if placed.description["topic"] == topic and (view is None or view.hash != placed.hash):
                return Unavailable(
                    "definition-differs",
                    f"The views.toml of this instance does not declare view {name} of topic "
                    f"{topic} as most instances do. Others may take the record. Nothing was "
                    "written. Retry.",
                )
        return NotFound(
            "no-such-resource",
            f'Topic {topic} does not allow appending. Set append = "on" in its view.',
        )

    def _check_version(self, topic: str, version: bytes) -> None:
        """Raises Conflict unless the version that the record is encoded for is current, Unavailable
        if this instance does not know which version is current."""
        versions = self._context.group.versions
        views = [view for view in self._context.views.values() if view.topic == topic]
        for view in views:
            if version == b"%d" % view.version and versions.current.get(view.base) == view.name:
                return
        bases = {view.base for view in views}
        # an unknown topic may be that of a version that no instance declares yet
        if unknown := versions.undecided & (bases or versions.undecided):
            raise undecided(min(unknown))
        if bases:
            base = min(bases)
            current = split_name(versions.current[base])[1]
            raise Conflict(
                "version-not-current",
                f"The record is not for version {current} of view {base}, which is the current "
                "one. It was not written. Encode it again for this version.",
                current=current,
            )

    def _partition(self, view: View, key: bytes) -> int:
        """The partition in which reads look the key up. Raises Unavailable."""
        metadata = self._context.metadata_poller.latest.get(view.topic)
        if metadata is None or not metadata.partitions:
            raise Unavailable(
                "topic-missing", f"The partitions of topic {view.topic} are not known yet."
            )
        return partition_of(view.append_partitioner)(key, metadata.partitions)

    async def _append(self, topic: str, partition: int, key: bytes, value: bytes | None) -> int:
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[int] = loop.create_future()

        def settle(offset: int | None, why: str) -> None:
            if stored.done():
                return
            if offset is None:
                # perhaps only the confirmation was lost
                stored.set_exception(
                    Unavailable(
                        "append-unconfirmed",
                        f"The broker has not confirmed the record: {why}. It may have been stored.",
                    )
                )
            else:
                stored.set_result(offset)

        def on_delivery(offset: int | None, why: str) -> None:
            loop.call_soon_threadsafe(settle, offset, why)

        try:
            self._context.kafka.appender.append(topic, partition, key, value, on_delivery)
        except QueueFull:
            raise Unavailable(
                "overloaded", "Too many records are waiting for the broker."
            ) from None
        except NotTaken as why:
            raise Unavailable(
                "topic-missing",
                f"The record was not sent to partition {partition} of topic {topic}: {why}. If the "
                f"partition is new, the producer will know it within a second.",
            ) from None
        except RecordTooLarge:
            raise BadRequest(
                "body-too-large", "The record is larger than the producer of appends may send."
            ) from None
        return await stored


def _record_value(view: View, value: object, written: bytes) -> bytes:
    """The record bytes of a JSON value. Raises BadRequest."""
    codec = view.value_codec
    try:
        text, is_raw = codec.json_to_text(value, written)
        raw = from_base64url(text) if is_raw else codec.from_text(text)
        codec.check(raw)
    except ValueError as e:
        raise BadRequest(
            "value-undecodable", f"The value is {e}; view {view.name} has {view.value} values."
        ) from None
    return raw
