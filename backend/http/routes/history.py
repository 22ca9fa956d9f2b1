"""The last hour of the deployment: each instance keeps its own history, and any instance asks all
instances for theirs."""

from __future__ import annotations

import asyncio
import contextlib
import time

from backend.admin.topology import Peers
from backend.http.parameters import parse_parameters
from backend.http.request import Request
from backend.http.routes.document_threads import DocumentThreads
from backend.instance.context import InstanceContext
from backend.telemetry.history import STEP_S, Counted, merged
from backend.wire.answer import Answer, json_answer
from model.machine.clock import boot_time
from model.topology import ACTIVE

PATH = "/admin/history"
_LOCAL = "/admin/history?of=instance"


class HistoryRoute:
    """Records the history of this instance, and answers `GET /admin/history`."""

    def __init__(self, context: InstanceContext, threads: DocumentThreads) -> None:
        self._context = context
        self._threads = threads
        self._peers = Peers(context.cluster.signer, context.certificates, path=_LOCAL)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Called in the event loop."""
        self._task = asyncio.create_task(self._run(), name="history")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            self._context.telemetry.history.record(time.time(), counted(self._context))
            # steps end at the same time on all instances
            await asyncio.sleep(STEP_S - time.time() % STEP_S + 0.05)

    async def history(self, request: Request) -> Answer:
        scope = parse_parameters(request.query, ("of",)).choice("of", "deployment", "instance")
        me = self._context.settings.instance_id
        own = {"id": me, **self._context.telemetry.history.document()}
        if scope == "instance":
            return json_answer(own)
        others = [m for m in self._context.group.topology.members if m.id != me]
        answers = await self._threads.run(self._peers.ask, others)
        # those that do not answer have no samples
        documents = {answer["id"]: answer for answer in (own, *answers) if "samples" in answer}
        return json_answer(merged(documents))


def counted(context: InstanceContext) -> Counted:
    """What this instance has counted until now."""
    now, trusted_for = boot_time(), context.settings.ends_trusted_for
    actives = [p for p in context.store_partitions.all() if p.role == ACTIVE]
    lags = [p.progress.lag(now, trusted_for) for p in actives]
    known = [lag for lag in lags if lag is not None]
    requests, errors, buckets = context.telemetry.latencies.client_totals()
    return Counted(
        sum(known) if len(known) == len(lags) else None,
        {(p.view.name, p.partition): p.applied_records for p in actives},
        requests,
        errors,
        buckets,
    )
