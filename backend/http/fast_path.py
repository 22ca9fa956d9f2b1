"""Point reads that are answered as their bytes arrive, without a task, a scope or a parser.

Everything else is left to the router, which decides about it in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from logging import INFO
from time import perf_counter

from backend.cluster.heartbeats import PATH as HEARTBEAT
from backend.cluster.heartbeats import Heartbeats
from backend.http.access import AccessControl
from backend.http.forwarding.coalesced_forwards import CoalescedForwards, Outcome
from backend.http.forwarding.received_keys import key_read
from backend.http.paths import Paths
from backend.http.responses import KeyResponses
from backend.http.routes.batched_keys import BatchedKeys
from backend.http.routes.point_batch import PointBatchRoute
from backend.http.sending import complete, internal_error, role_of
from backend.instance.context import InstanceContext
from backend.queries.routing import NotOwner
from backend.security.connection_key import ConnectionKey
from backend.security.signatures import HEADER as SIGNATURE
from backend.security.signatures import Purpose
from backend.telemetry.latencies import INTERNAL_READS, Labels, Series, TurnReads, not_counted
from backend.telemetry.logs import REQUESTS
from backend.wire.answer import Answer, problem_answer
from backend.wire.plain_requests import PlainPoll, PlainPost
from backend.wire.point_batch import READS
from model.problems import BadRequest, Forbidden, Problem, Unavailable

PROCESSORS = b"/processors"
_UNCHANGED = Labels("processors", status=304)
_HEARTBEAT = Labels("internal/heartbeat")
READERS = Purpose.PROXY, Purpose.PEER
"""Who sends coalesced reads."""

log = logging.getLogger(__name__)


class FastPath:
    """Answers requests without ASGI, for the server's worker: see
    `backend.server.interface.FastPath`. Used in the event loop."""

    def __init__(
        self,
        context: InstanceContext,
        paths: Paths,
        responses: Mapping[str, KeyResponses],
        access: AccessControl,
        forwards: CoalescedForwards,
        heartbeats: Heartbeats,
        allows_host: Callable[[bytes], bool],
        refused: Callable[[Forbidden, str, bytes], None],
    ) -> None:
        """`allows_host(host)`: whether a request with this Host may be answered here.
        `refused(problem, client, target)` is called when an internal request is refused."""
        self._group, self._cluster = context.group, context.cluster
        self._latencies, self._spans = context.telemetry.latencies, context.telemetry.spans
        self.allows_host = allows_host
        self._refused = refused
        self._paths = paths
        self._responses = responses
        self._access = access
        self._turn = TurnReads(self._latencies)
        self._series: dict[int, Series] = {}
        self._forwards = forwards
        self._heartbeats = heartbeats
        # the last read of a key that other instances have: its path, who they are, and the key
        self._elsewhere: tuple[bytes, KeyResponses, NotOwner, bytes] | None = None
        keys = BatchedKeys(paths, responses, self._turn)
        self.coalesced = PointBatchRoute(context.group, keys, access, self._turn)

    def start(self) -> None:
        """Starts to measure durations. Called in the event loop."""
        self._turn.start(asyncio.get_running_loop())

    def use(self, paths: Paths) -> None:
        """Uses other paths: other versions of views have become current. Called in any thread."""
        self._paths = paths
        self.coalesced.use(paths)

    def answer_now(self, raw_path: bytes, token: bytes | None = None) -> Answer | None:
        """The complete answer to a plain GET, if it is a point read that can be answered
        immediately.

        `token`: the token of the Authorization header, if there is one. None leaves the request to
        the router: the request has to wait or to be counted, other instances must be asked, its
        token must be verified, or it is refused.
        """
        try:
            path = self._paths.key_path(raw_path)
            if path is None or path.rest:
                return None
            if path.view.quota is not None or not self._access.may_read_now(token, path.view.base):
                return None
            responses = self._responses[path.view.name]
            self._turn.begin()
            key = responses.reads.parse_key(path.text)
            answer = responses.point(key)
            if answer.status == 404 and responses.reads.other_key(key) is not None:
                return None
        except NotOwner as others:
            self._elsewhere = raw_path, responses, others, key
            return None
        except Problem:
            return None
        except Exception:
            log.exception("GET %r", raw_path)
            return None
        try:
            self._turn.note(responses.series(answer.role, answer.status))
        except Exception as error:
            not_counted(error)
        complete(answer, "GET", self._group.epoch_header)
        return answer

    def forward_now(
        self, raw_path: bytes, token: bytes | None, ended: Callable[[Answer | None], None]
    ) -> bool:
        """Asks another instance for the answer to a GET that `answer_now` has just left unanswered.
        Returns True if it is being asked. Then `ended` is called later, with the answer or with
        None. None leaves the request to the router: the instance does not answer, and others may
        have to be asked."""
        if self._spans is not None or REQUESTS.isEnabledFor(INFO):
            return False  # the router measures each request for the log
        elsewhere, self._elsewhere = self._elsewhere, None
        if elsewhere is None or elsewhere[0] is not raw_path:
            return False
        _, responses, others, key = elsewhere
        began = perf_counter()
        try:
            read = key_read(responses.reads, others.partition, key, self._group.versions)
        except Unavailable:  # the number of partitions is not known
            return False
        asked = self._forwards.enqueue(others.member, read, token)
        if asked is None:
            return False
        asked.add_done_callback(partial(self._forwarded, responses, began, ended))
        return True

    def _forwarded(
        self,
        responses: KeyResponses,
        began: float,
        ended: Callable[[Answer | None], None],
        asked: asyncio.Future[Outcome],
    ) -> None:
        answer = None if asked.cancelled() else asked.result()
        if not isinstance(answer, Answer) or answer.status == 503:
            ended(None)
            return
        try:
            responses.reads.counts.forwarded += 1
            now = perf_counter()
            series = responses.series(role_of(answer.headers), answer.status)
            self._latencies.observe(series, now - began, now)
        except Exception as error:
            not_counted(error)
        complete(answer, "GET", self._group.epoch_header)
        ended(answer)

    def reads_now(
        self,
        reads: PlainPost,
        client: str,
        has_certificate: bool = False,
        connection: ConnectionKey | None = None,
    ) -> Answer:
        """The complete answer to point reads that a proxy or an instance sends together. `client`:
        the address of the sender's socket. `has_certificate`: see `mutual_tls.is_of_cluster`.
        `connection`: the key of its connection."""
        body, sender = reads.body, None
        try:
            if connection is None or not connection.is_next(reads.signature, body):
                sender = self._cluster.admit(
                    READERS, "POST", READS, reads.signature, client, has_certificate, connection
                )
                if sender is not None:
                    sender.check_body(body)
        except Forbidden as problem:
            self._refused(problem, client, READS)
            answer = problem_answer(problem)
        else:
            self._turn.begin()
            try:
                answer = self.coalesced.answer(body)
            except BadRequest as problem:
                answer = problem_answer(problem)
            except Exception:
                log.exception("POST %s", READS.decode())
                answer = problem_answer(internal_error())
            if sender is not None:
                sender.sign(answer)
        try:
            series = self._series.get(answer.status) or self._series_of_requests(answer.status)
            self._turn.note(series)
        except Exception as error:
            not_counted(error)
        complete(answer, "POST", self._group.epoch_header)
        return answer

    def _series_of_requests(self, status: int) -> Series:
        """The histogram of the requests for coalesced reads."""
        labels = Labels(INTERNAL_READS, status=status)
        series = self._series[status] = self._latencies.series(labels)
        return series

    def heartbeat_now(
        self, heartbeat: PlainPost, client: str, has_certificate: bool = False
    ) -> Answer:
        """The complete answer to a heartbeat of another instance. `client`: the address of its
        socket. `has_certificate`: see `mutual_tls.is_of_cluster`."""
        self._turn.begin()
        try:
            sender = self._cluster.admit(
                (Purpose.PEER,), "POST", HEARTBEAT, heartbeat.signature, client, has_certificate
            )
            if sender is not None:
                sender.check_body(heartbeat.body)
        except Forbidden as problem:
            self._refused(problem, client, HEARTBEAT)
            answer = problem_answer(problem)
        else:
            answer = self._heartbeats.answer(heartbeat.body)
            if sender is not None:
                sender.sign(answer)
        self._turn.note(self._latencies.series(_HEARTBEAT._replace(status=answer.status)))
        complete(answer, "POST", self._group.epoch_header)
        return answer

    def unchanged_now(
        self, poll: PlainPoll, client: str, has_certificate: bool = False
    ) -> Answer | None:
        """304 to a proxy that has the latest topology; None leaves the request to the router: the
        topology is unknown, the page has not been built since it changed, or the proxy is refused.
        """
        group = self._group
        if not group.known or group.processors_etag != (
            group.revision,
            poll.etag,
        ):
            return None
        if self._access.is_on and not has_certificate:
            headers = [] if poll.signature is None else [(SIGNATURE, poll.signature)]
            if not self._cluster.is_signed("GET", PROCESSORS, headers, client):
                return None
        self._turn.begin()
        self._turn.note(self._latencies.series(_UNCHANGED))
        answer = Answer(304, [(b"etag", poll.etag)], b"")
        complete(answer, "GET", group.epoch_header)
        return answer
