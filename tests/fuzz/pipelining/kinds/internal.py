"""Requests between instances and from the proxy, signed with the cluster secret, and forged ones.

Answers to instances are signed, for one request each.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from backend.cluster.heartbeats import PATH as HEARTBEAT
from backend.cluster.liveness import RUNNING, Heartbeat
from backend.cluster.topology_fetcher import PATH as TOPOLOGY
from backend.queries.batch import BATCH_PATH
from backend.queries.scans.scatter_gather import SCAN_PATH
from backend.security.signatures import HEADER, SignedRequest, Signer
from backend.wire.point_batch import READS, Reads, encode_reads
from backend.wire.scan import Query
from backend.wire.scan_codec import (
    ROWS,
    ScanRequest,
    decode_response,
    encode_request,
    pack,
    unpack,
)
from backend.wire.snapshot import PATH as COPY
from backend.wire.snapshot import receive
from model.views import View
from tests.fuzz.pipelining.example import (
    KEYS,
    ORDERS,
    PARTITIONS,
    VERSIONS,
    home,
    value,
)
from tests.fuzz.pipelining.kinds.values import read, value_body
from tests.fuzz.pipelining.requests import (
    NO_TOKEN,
    Answer,
    Check,
    Draw,
    Kind,
    Request,
    Token,
    is_problem,
)
from tests.support.point_batch import decode_answers, whole_answers

_ROUTES = tuple(
    path.decode() if isinstance(path, bytes) else path
    for path in (READS, SCAN_PATH, BATCH_PATH, HEARTBEAT, TOPOLOGY, COPY)
)
# every fourth one is missing
_BY_HOME = [
    [n for n in range(KEYS * 4 // 3) if home(b"k%d" % n) == partition]
    for partition in range(PARTITIONS)
]
_SIGNATURE = HEADER.decode()
_REFUSED = is_problem(403, "not-a-member")


class Signers(NamedTuple):
    """Of instances, of the proxy, and of another deployment."""

    peer: Signer
    proxy: Signer
    foreign: Signer


@dataclass
class Internal:
    """Requests at the port of one instance.

    `views`: by name. `held`: the partitions of a view that the instance has. `tokens`: of which
    the reads of one request have several. `read_together`: how many reads were answered together.
    """

    instance: str
    other: str
    group: str
    signers: Signers
    views: Mapping[str, View]
    held: Mapping[str, Sequence[int]]
    tokens: Sequence[Token] = (NO_TOKEN,)
    read_together: int = field(init=False, default=0)
    _times: itertools.count[int] = field(init=False, default_factory=lambda: itertools.count(1))
    _used: list[Request] = field(init=False, default_factory=list)

    def kinds(self) -> list[Kind]:
        return [
            Kind(6, self._scan), Kind(5, self._batch), Kind(8, self._reads), Kind(2, self._beat),
            Kind(1, self._topology, True), Kind(1, self._no_copy, True), Kind(1, self._copy),
            Kind(2, self._malformed, True), Kind(6, self._forged, True),
            Kind(2, self._replayed, True),
        ]  # fmt: skip

    def _signed(
        self,
        path: str | bytes,
        body: bytes,
        check: Callable[[Answer, SignedRequest], bool],
        needs: str = "",
    ) -> Request:
        """A request of another instance; the answer must have the signature for this request."""
        target = path if isinstance(path, bytes) else path.encode()
        signed = self.signers.peer.sign("POST", target, self.instance, body)

        def check_signature(answer: Answer) -> bool:
            given = answer.headers.get(_SIGNATURE, "").encode()
            is_stream = "transfer-encoding" in answer.headers
            is_signed = is_stream or signed.is_answer(answer.status, answer.body, given)
            is_right = is_signed and check(answer, signed)
            if is_right:
                self._used[:] = [request]
            return is_right

        headers = {"Queryable-Signature": signed.header.decode()}
        request = Request("POST", target.decode(), check_signature, needs, headers, body)
        return request

    def _scan(self, draw: Draw) -> Request:
        """The entry of one key, of the partition that has it."""
        of = draw.random.choice((ORDERS, VERSIONS))
        view, key = self.views[of], b"k%d" % draw.number
        partition = home(key)
        low, high = view.layout.key_range(key, key)
        ask = ScanRequest(of, view.hash, PARTITIONS, ROWS, Query(low, high), limit=10)
        item = {"key": key.decode(), "value": value(of, draw.number)}
        is_here = partition in self.held[of]

        def check(answer: Answer, _: SignedRequest) -> bool:
            found = decode_response(answer.body)
            items = [json.loads(item) for _, _, item in found.rows]
            if is_here:
                return answer.status == 200 and (items, found.missing) == ([item], {})
            return answer.status == 200 and (items, [*found.missing]) == ([], [partition])

        return self._signed(SCAN_PATH, encode_request(ask, [partition], None), check, read(of))

    def _batch(self, draw: Draw) -> Request:
        of = draw.random.choice((ORDERS, VERSIONS))
        more = (draw.random.randrange(2 * KEYS) for _ in range(draw.random.randint(0, 8)))
        numbers = [draw.number, *more]
        keys = [b"k%d" % n for n in numbers]
        body = pack([of.encode(), self.views[of].hash.encode(), *keys])

        def check(answer: Answer, _: SignedRequest) -> bool:
            items = unpack(answer.body, len(numbers))
            return answer.status == 200 and all(
                self._is_item(of, n, item) for n, item in zip(numbers, items, strict=True)
            )

        return self._signed(BATCH_PATH, body, check, read(of))

    def _is_item(self, of: str, number: int, item: bytes) -> bool:
        mark, document = item[:1], json.loads(item[1:])
        if document["key"] != f"k{number}":
            return False
        if home(b"k%d" % number) not in self.held[of]:
            return mark == b"?" and document["status"] == 503
        if number >= KEYS:
            return mark == b"." and document["status"] == 404
        return mark == b"." and document["value"] == value(of, number)

    def _reads(self, draw: Draw) -> Request:
        """Reads of keys, as nginx and backends send them, each with one of several tokens."""
        sent = [t for t in draw.random.sample(self.tokens, min(3, len(self.tokens))) if t.text]
        place = home(b"k%d" % draw.number)
        numbers = [draw.number, *draw.random.sample(_BY_HOME[place], draw.random.randint(0, 5))]
        words = b"%b string murmur2 %d %d" % (ORDERS.encode(), PARTITIONS, place)
        texts = [b"\x01k%d" % n for n in numbers]
        tokens = _tokens(draw, len(numbers), sent)
        groups = [Reads(words, texts, tokens)]
        digests = [hashlib.sha256(token.text.encode()).hexdigest().encode() for token in sent]
        body = encode_reads(digests, groups)

        def may_read(token: int) -> bool:
            sender = sent[token - 1] if token else self.tokens[0]
            return sender.refusal(read(ORDERS)) is None

        def check(answer: Answer) -> bool:
            found = decode_answers(answer.body, groups)
            wholes = [
                None if whole is None else (whole.status, whole.body)
                for keys in found.keys
                for whole in whole_answers(keys, [text[1:] for text in texts])
            ]
            self.read_together += sum(whole is not None for whole in wholes)
            return answer.status == 200 and all(
                whole is None or (may_read(token) and _is_read(number, whole))
                for number, token, whole in zip(numbers, tokens, wholes, strict=True)
            )

        return self._of_proxy(body, check)

    def _of_proxy(self, body: bytes, check: Check) -> Request:
        signed = self.signers.proxy.sign("POST", READS, self.instance, body)
        headers = {"Queryable-Signature": signed.header.decode()}
        return Request("POST", READS.decode(), check, "", headers, body, takes_token=False)

    def _beat(self, draw: Draw) -> Request:
        """The answer repeats the time, which is a number of its own here."""
        at = next(self._times)
        sent = Heartbeat(self.group, self.other, self.instance, RUNNING, at)
        expected = Heartbeat(self.group, self.instance, self.other, RUNNING, at)

        def check(answer: Answer, _: SignedRequest) -> bool:
            return answer.status == 200 and Heartbeat.decode(answer.body) == expected

        return self._signed(HEARTBEAT, sent.encode(), check)

    def _topology(self, draw: Draw) -> Request:
        digest = hashlib.sha256(b"%d" % draw.number).hexdigest().encode()
        is_this = is_problem(503, "not-here", "topology")
        return self._signed(TOPOLOGY, digest, lambda answer, _: is_this(answer))

    def _no_copy(self, draw: Draw) -> Request:
        partition = PARTITIONS + draw.number
        is_this = is_problem(503, "not-here", f"Partition {partition} of {ORDERS} ")
        body = self._copy_of(ORDERS, partition)
        return self._signed(COPY, body, lambda answer, _: is_this(answer))

    def _copy(self, draw: Draw) -> Request:
        """Its last line is the HMAC for this request, of all files."""
        body = self._copy_of(ORDERS, draw.random.choice([*self.held[ORDERS]]))

        def check(answer: Answer, signed: SignedRequest) -> bool:
            stream = io.BytesIO(answer.body)
            size = receive(
                stream.read, stream.readline, lambda _: io.BytesIO(), mac=signed.answer_mac()
            )
            return answer.status == 200 and size > 0 and stream.read() == b""

        return self._signed(COPY, body, check)

    def _copy_of(self, of: str, partition: int) -> bytes:
        asked = {"view": of, "hash": self.views[of].hash, "partition": partition}
        return json.dumps(asked).encode()

    def _malformed(self, draw: Draw) -> Request:
        path = draw.random.choice((SCAN_PATH, BATCH_PATH))
        is_this = is_problem(400, "bad-request", "The body is ")
        body = b"\xff" * (draw.number + 5)
        return self._signed(path, body, lambda answer, _: is_this(answer))

    def _forged(self, draw: Draw) -> Request:
        """Signed by another secret, for another purpose, instance, path or body, or not at all."""
        path = draw.random.choice(_ROUTES)
        target, body = path.encode(), b'{"number":%d}' % draw.number
        peer, proxy, foreign = self.signers
        by_other = foreign.sign("POST", target, self.instance, body)
        signed = draw.random.choice((
            None,
            by_other,
            peer.sign("POST", target, self.other, body),
            peer.sign("POST", target + b"?", self.instance, body),
            peer.sign("POST", target, self.instance, body + b" "),
            *((proxy.sign("POST", target, self.instance, body),) * (target != READS)),
        ))  # fmt: skip
        headers = {} if signed is None else {"Queryable-Signature": signed.header.decode()}
        return Request("POST", path, _REFUSED, "", headers, body, closes=True)

    def _replayed(self, draw: Draw) -> Request:
        """Sends an answered request again."""
        if not self._used:
            return self._forged(draw)
        used = self._used[0]
        check = is_problem(403, "not-a-member", "used before")
        return Request("POST", used.path, check, "", used.headers, used.body, closes=True)


def _tokens(draw: Draw, count: int, sent: Sequence[Token]) -> Sequence[int]:
    """The number of the token of each read; 0: none."""
    return [draw.random.randint(0, len(sent)) for _ in range(count)]


def _is_read(number: int, whole: tuple[int, bytes]) -> bool:
    status, body = whole
    if number < KEYS:
        return (status, body) == (200, value_body(ORDERS, number))
    document: dict[str, Any] = json.loads(body)
    return (status, document["code"]) == (404, "key-not-found")


def of_proxy() -> list[Kind]:
    """Through nginx, nobody may use these routes."""

    def refused(draw: Draw) -> Request:
        path, body = draw.random.choice(_ROUTES), b'{"number":%d}' % draw.number
        check = is_problem(404, "no-such-resource")
        return Request("POST", path, check, body=body, closes=True)

    return [Kind(6, refused, True)]
