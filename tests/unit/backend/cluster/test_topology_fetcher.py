"""Fetching the topology to which the leader has sent a reference, from HTTP servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from backend.cluster import topology_fetcher
from backend.cluster.encoded_topologies import EncodedTopologies
from backend.cluster.topology_fetcher import GIVE_UP_AFTER, PATH, TopologyFetcher
from backend.security.signatures import HEADER, Signer
from model.group.topology_reference import TopologyReference, digest_of
from model.topology import Epoch, Member, Topology
from tests.support.security.cluster_secret import cluster_secret

Reply = tuple[int, bytes]


class Instance:
    """Answers requests for topologies, and keeps their digests."""

    def __init__(self, id_: str) -> None:
        self.reply: Reply | Callable[[BaseHTTPRequestHandler], None] = (503, b"not-here")
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.member = Member(id_, "127.0.0.1", self.server.server_port)
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        instance = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == PATH
                body = self.rfile.read(int(self.headers["content-length"]))
                instance.asked.append(body.decode())
                if callable(instance.reply):
                    instance.reply(self)
                    return
                status, answer = instance.reply
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Group:
    """A leader, another member, and a fetcher of a third one."""

    def __init__(self, leader: Instance, other: Instance) -> None:
        self.leader, self.other = leader, other
        members = (leader.member, other.member, Member("b3", "127.0.0.1", 1))
        self.current = Topology(Epoch(5, 1), (other.member,))
        self.new = Topology(Epoch(9, 0), members)
        self.encoded = self.new.encode()
        self.reference = TopologyReference.for_topology(self.encoded, 3, leader.member, 5)
        self.topologies, self.clock = EncodedTopologies(), Clock()
        self.fetcher = self.fetcher_with(None)

    def fetcher_with(self, signer: Signer | None) -> TopologyFetcher:
        return TopologyFetcher("b3", self.topologies, signer, clock=self.clock)

    def attempt(self) -> Topology | None:
        """After the time until the next one."""
        wait = self.fetcher.wait
        assert wait is not None
        self.clock.now += wait
        return self.fetcher.attempt(self.current)


@pytest.fixture
def group() -> Iterator[Group]:
    leader, other = Instance("b1"), Instance("b2")
    yield Group(leader, other)
    leader.close()
    other.close()


def test_the_leader_sends_its_topology(group: Group) -> None:
    group.leader.reply = 200, group.encoded
    assert group.fetcher.wait is None
    assert group.fetcher.attempt(group.current) is None
    group.fetcher.request(group.reference, 17)
    found = group.attempt()
    assert found == Topology(Epoch(9, 17), group.new.members)
    assert group.leader.asked == [group.reference.digest]
    assert group.fetcher.wait is None
    assert group.topologies.get(group.reference.digest) == group.encoded, "others may ask for it"


def test_the_leader_itself_needs_no_request(group: Group) -> None:
    group.topologies.add(group.encoded)
    group.fetcher.request(group.reference, 17)
    assert group.fetcher.wait == 0
    assert group.fetcher.attempt(group.current) is not None
    assert group.leader.asked == []


def test_other_members_are_asked_if_the_leader_does_not_answer(group: Group) -> None:
    group.leader.close()
    group.other.reply = 200, group.encoded
    group.fetcher.request(group.reference, 17)
    assert group.attempt() is None
    assert group.attempt() == Topology(Epoch(9, 17), group.new.members)


def no_answer(_: BaseHTTPRequestHandler) -> None:
    return


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with_suppressed_errors(lambda: [handler.wfile.write(bytes(1 << 16)) for _ in range(1000)])


def with_suppressed_errors(write: Callable[[], object]) -> None:
    try:
        write()
    except OSError:
        return


@pytest.mark.parametrize(
    "reply",
    [
        (503, b'{"code":"not-here"}'),
        (200, b""),
        (200, b"another topology"),
        (403, b"not-a-member"),
        no_answer,
        endless,
    ],
)
def test_a_wrong_answer_is_no_topology(
    group: Group, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    group.leader.reply = reply
    group.fetcher.request(group.reference, 17)
    assert group.attempt() is None
    assert "instance b1 has not sent the new topology" in caplog.text
    assert group.topologies.get(group.reference.digest) is None
    group.leader.reply = 200, group.encoded
    assert [group.attempt() is None for _ in range(2)] == [True, False], "b2, then the leader again"


@pytest.mark.slow
@pytest.mark.parametrize("slow_part", ["head", "body"])
def test_an_answer_that_comes_slowly_ends(
    group: Group, monkeypatch: pytest.MonkeyPatch, slow_part: str
) -> None:
    """The member must poll its group meanwhile."""
    monkeypatch.setattr(topology_fetcher, "_TIMEOUT", 0.3)
    ended = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        if slow_part == "body":
            handler.send_response(200)
            handler.end_headers()
        # never silent for as long as the time-out of the socket
        while not ended.wait(0.05):
            handler.wfile.write(b"x")

    def reply(handler: BaseHTTPRequestHandler) -> None:
        with_suppressed_errors(lambda: drip(handler))
        ended.set()

    group.leader.reply = reply
    group.fetcher.request(group.reference, 17)
    try:
        assert group.attempt() is None
        assert ended.wait(20), "the connection has ended"
    finally:
        ended.set()
    group.leader.reply = 200, group.encoded
    assert [group.attempt() is None for _ in range(2)] == [True, False], "b2, then the leader again"


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "ü" * 64])
def test_a_host_that_is_no_name_is_an_instance_that_does_not_answer(
    group: Group, host: str
) -> None:
    leader = Member("b1", host, 1)
    group.other.reply = 200, group.encoded
    group.fetcher.request(TopologyReference.for_topology(group.encoded, 3, leader, 9), 17)
    assert [group.attempt() is None for _ in range(2)] == [True, False]


def test_an_instance_does_not_ask_itself(group: Group) -> None:
    itself = Member("b3", "127.0.0.1", group.other.member.port)
    group.current = Topology(Epoch(5, 1), (group.leader.member, itself))
    group.fetcher.request(group.reference, 17)
    for _ in range(6):
        assert group.attempt() is None
    assert (len(group.leader.asked), group.other.asked) == (6, [])


def test_attempts_get_rarer_and_end(group: Group) -> None:
    group.fetcher.request(group.reference, 17)
    began, attempts = group.clock.now, 0
    while not group.fetcher.has_given_up:
        assert group.attempt() is None
        attempts += 1
    assert GIVE_UP_AFTER < group.clock.now - began < GIVE_UP_AFTER + 3
    assert 10 < attempts < 40
    assert len(group.other.asked) == attempts // 2
    group.fetcher.give_up()
    assert (group.fetcher.wait, group.fetcher.has_given_up) == (None, False)


def test_an_instance_that_cannot_fetch_asks_for_fewer_and_fewer_topologies(group: Group) -> None:
    def seconds() -> float:
        began = group.clock.now
        group.fetcher.request(group.reference, 17)
        while not group.fetcher.has_given_up:
            group.clock.now += 1
        group.fetcher.give_up()
        return group.clock.now - began

    assert [seconds() // GIVE_UP_AFTER for _ in range(7)] == [1, 2, 4, 8, 16, 16, 16]
    group.leader.reply = 200, group.encoded
    group.fetcher.request(group.reference, 17)
    assert group.attempt() is not None
    assert seconds() // GIVE_UP_AFTER == 1


def test_a_newer_reference_replaces_the_one_before(group: Group) -> None:
    group.fetcher.request(group.reference, 17)
    newer = Topology(Epoch(11, 0), group.new.members).encode()
    group.fetcher.request(TopologyReference.for_topology(newer, 3, group.leader.member, 5), 18)
    group.leader.reply = 200, newer
    found = group.attempt()
    assert found is not None
    assert found.epoch == Epoch(11, 18)
    assert group.leader.asked == [digest_of(newer)]


def test_first_requests_of_a_large_group_are_spread(group: Group) -> None:
    large = TopologyReference.for_topology(group.encoded, 1_000, group.leader.member, 5)
    waits = []
    for _ in range(200):
        group.fetcher.request(large, 1)
        waits.append(group.fetcher.wait or 0.0)
    assert max(waits) <= 1.0
    assert max(waits) > 0.8
    assert min(waits) < 0.2


@contextmanager
def signed_answers(group: Group, signer: Signer) -> Iterator[None]:
    """The leader signs what it answers, for the request that it has got."""
    sent = []
    sign = signer.sign

    def remember(*arguments: object) -> object:
        sent.append(sign(*arguments))  # type: ignore[arg-type]
        return sent[-1]

    signer.sign = remember  # type: ignore[assignment,method-assign]

    def reply(handler: BaseHTTPRequestHandler) -> None:
        request = sent[-1]
        assert handler.headers[HEADER.decode()] == request.header.decode()
        mac = request.answer_mac()
        mac.add(b"200")
        mac.add(digest_of(group.encoded).encode())
        handler.send_response(200)
        handler.send_header(HEADER.decode(), mac.hex().decode())
        handler.end_headers()
        handler.wfile.write(group.encoded)

    group.leader.reply = reply
    yield


def test_answers_must_be_signed(group: Group, tmp_path: Path) -> None:
    signer = Signer(cluster_secret(tmp_path))
    group.fetcher = group.fetcher_with(signer)
    group.leader.reply = 200, group.encoded
    group.fetcher.request(group.reference, 17)
    assert group.attempt() is None
    assert group.attempt() is None  # the other one
    with signed_answers(group, signer):
        assert group.attempt() is not None


def test_only_the_latest_topologies_are_kept() -> None:
    topologies = EncodedTopologies()
    encoded = [b"%d" % number for number in range(10)]
    for each in encoded:
        topologies.add(each)
    kept = [each for each in encoded if topologies.get(digest_of(each)) == each]
    assert kept == encoded[-4:]
