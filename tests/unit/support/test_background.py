from __future__ import annotations

import socket
import threading

import pytest

from local.waiting import wait_until
from tests.support.background import Background
from tests.support.read_loop import ReadLoop


class Failing(Background):
    def __init__(self) -> None:
        super().__init__("failing", 2)
        self.begun = threading.Barrier(3)

    def _work(self, number: int) -> None:
        self.begun.wait(10)
        self._stop.wait(10)
        raise LookupError(number)

    def leave(self, error: BaseException | None) -> None:
        with self:
            self.begun.wait(10)
            if error is not None:
                raise error


def test_an_error_in_a_thread_is_raised_when_all_have_ended() -> None:
    failing = Failing()
    with pytest.raises(LookupError):
        failing.leave(None)
    assert len(failing.failures) == 2


def test_an_error_in_the_block_takes_precedence() -> None:
    with pytest.raises(ZeroDivisionError):
        Failing().leave(ZeroDivisionError())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "outcomes"),
    [
        (b"", {"200"}),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nha", {"200", "unreachable"}),
    ],
    ids=["closed while idle", "closed in an answer"],
)
def test_a_read_is_sent_again_only_if_its_connection_was_closed_before_an_answer(
    second: bytes, outcomes: set[str]
) -> None:
    """As nginx does in a reload: each connection gets one answer, and is then closed on the next
    request."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", second):
                        if not connection.recv(4096):
                            break
                        connection.sendall(answer)

        server = threading.Thread(target=serve, name="serve")
        server.start()
        loop = ReadLoop([listening.getsockname()[1]], ["/a", "/b"], lambda *_: "", threads=1)
        with loop:
            wait_until(lambda: loop.seen("200") > 10, 20, "answers")
        listening.shutdown(socket.SHUT_RDWR)
        server.join(10)
    assert set(loop.outcomes) == outcomes
