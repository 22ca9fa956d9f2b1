"""The tailer with a real broker: every line arrives, even if the tailer is killed and restarted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from local.kafka.broker import Broker
from local.processes import spawn
from local.settings import REPOSITORY
from local.tailer.tailer import MAX_LINE_BYTES, Tailer
from local.waiting import wait_until
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import history


def line(number: int, client: str = "10.0.0.1") -> bytes:
    return json.dumps({"client": client, "request_id": str(number)}).encode() + b"\n"


def shipped(broker: Broker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    [log] = history(broker.bootstrap_servers, topic, 1)
    return [(key, value) for _, _, key, value in log.records]


def test_lines_are_records_of_their_client(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, log = make_topic(), tmp_path / "access.log"
    odd = [b"nonsense\n", b"[1]\n", b'{"client":5}\n', b'{"client":""}\n', b"\xff\n"]
    long = b"x" * (MAX_LINE_BYTES + 1) + b"\n"
    log.write_bytes(line(1) + line(2, "::1") + b"".join(odd) + long + line(3)[:-1])
    with closing(Tailer(log, tmp_path / "position", broker.bootstrap_servers, topic)) as tailer:
        assert tailer.step() == 8
        assert tailer.step() == 0
    assert shipped(broker, topic) == [
        (b"10.0.0.1", line(1)[:-1]),
        (b"::1", line(2, "::1")[:-1]),
        *((None, each[:-1]) for each in odd),
        (None, b"x" * MAX_LINE_BYTES),
    ]


def test_undelivered_lines_are_read_again(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, log = make_topic(), tmp_path / "access.log"
    log.write_bytes(line(1))
    with closing(Tailer(log, tmp_path / "position", broker.bootstrap_servers, topic)) as tailer:
        tailer._producer._errors.append("Local: Message timed out")
        assert tailer.step() == 0
        assert "Trying again" in capfd.readouterr().err
        assert tailer.step() == 1
    assert shipped(broker, topic) == [(b"10.0.0.1", line(1)[:-1])] * 2


def test_a_killed_tailer_loses_nothing(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, log = make_topic(), tmp_path / "access.log"

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "local.tailer", "--topic", topic, "--log", str(log)]
        command += ["--position", str(tmp_path / "position")]
        command += ["--bootstrap-servers", broker.bootstrap_servers]
        return spawn(command, tmp_path / "tailer.log", env=dict(os.environ), cwd=REPOSITORY)

    def numbers() -> list[int]:
        return [int(json.loads(value or b"")["request_id"]) for _, value in shipped(broker, topic)]

    tailer = start()
    try:
        log.write_bytes(b"".join(map(line, range(2000))))
        wait_until(lambda: numbers(), 30, "the first lines")
        tailer.kill()
        tailer.wait(10)
        with log.open("ab") as file:
            file.writelines(map(line, range(2000, 3000)))
        tailer = start()
        wait_until(lambda: set(numbers()) == set(range(3000)), 30, "all lines")
        tailer.send_signal(signal.SIGTERM)
        assert tailer.wait(20) == 0, (tmp_path / "tailer.log").read_text()
    finally:
        tailer.kill()
        tailer.wait(10)
    # lines are in order; only unconfirmed ones are repeated
    found = numbers()
    assert [n for i, n in enumerate(found) if n not in found[:i][-2500:]] == list(range(3000))


def test_a_working_tailer_touches_its_health_file(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "access.log").touch()
    health, stop = tmp_path / "alive", threading.Event()
    tailer = Tailer(
        tmp_path / "access.log", tmp_path / "position.json", broker.bootstrap_servers, "unused"
    )
    running = threading.Thread(target=tailer.run, args=(stop, health))
    running.start()
    try:
        wait_until(health.exists, 5, "the file")
        os.utime(health, (0, 0))
        wait_until(lambda: health.stat().st_mtime > 0, 5, "a new time")
    finally:
        stop.set()
        running.join()
        tailer.close()
