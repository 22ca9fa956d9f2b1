"""Requests between instances: scans, batches, heartbeats, topologies and copies of store
partitions."""

from __future__ import annotations

from functools import partial

from backend.cluster.heartbeats import Heartbeats
from backend.http.access import Access, AccessControl
from backend.http.request import Request
from backend.http.routes.snapshots import SnapshotSender
from backend.instance.context import InstanceContext
from backend.queries.batch import Batches
from backend.queries.scans.partition_scan import MalformedArguments, PartitionScans
from backend.queries.stores import refuse_custom
from backend.queries.turns import next_turn
from backend.wire.answer import JSON, MALFORMED, Answer, Header
from backend.wire.scan import KNOWS_UNREADABLE
from backend.wire.scan_codec import decode_request, encode_response, pack
from model.problems import BadRequest, Unavailable
from model.view_versions import base_of

OCTETS: Header = (b"content-type", b"application/octet-stream")


class InternalRoutes:
    """The handlers of `/internal/…`, except the proxy's reads.

    Scans and batches carry the token of the client. The view, which their body names, is checked
    here again.
    """

    def __init__(
        self,
        context: InstanceContext,
        scans: PartitionScans,
        batches: Batches,
        heartbeats: Heartbeats,
        access: AccessControl,
    ) -> None:
        self._context = context
        self._access = access
        self._scans = scans
        self._snapshots = SnapshotSender(context)
        self._batches = batches
        self._heartbeats = heartbeats

    async def scan(self, request: Request) -> Answer:
        await next_turn()
        try:
            ask, partitions, after = decode_request(request.body)
        except ValueError as e:
            raise _malformed(e) from None
        self._access.admit(Access.READ, request.headers, base_of(ask.view))
        view = self._context.views.get(ask.view)
        if view is not None and ask.view_hash == view.hash:
            refuse_custom(view)
        try:
            knows_unreadable = KNOWS_UNREADABLE in request.headers
            response = await self._scans.answer(ask, partitions, after, knows_unreadable)
        except MalformedArguments as e:
            raise _malformed(e) from None
        return Answer(200, [OCTETS], encode_response(response))

    async def batch(self, request: Request) -> Answer:
        await next_turn()
        try:
            admit = partial(self._access.admit, Access.READ, request.headers)
            result = await self._batches.serve(request.body, admit)
        except ValueError as e:
            raise _malformed(e) from None
        served_by = result.answerers.headers(self._context.settings.instance_id)
        return Answer(200, [JSON, *served_by], pack(result.items))

    async def heartbeat(self, request: Request) -> Answer:
        return self._heartbeats.answer(request.body)

    async def topology(self, request: Request) -> Answer:
        """Answers with the topology whose digest is in the body. The leader has sent only a
        reference to it."""
        encoded = self._context.topologies.get(request.body.decode("latin-1"))
        if encoded is None:
            raise Unavailable("not-here", "This instance does not have the topology.")
        return Answer(200, [OCTETS], encoded)

    async def copy(self, request: Request) -> None:
        refused = await self._snapshots.answer(request.body, request.send, request.sender)
        if refused is not None:
            raise refused


def _malformed(error: ValueError) -> BadRequest:
    return BadRequest(MALFORMED, f"The body is {error}.")
