"""The job as a process that is killed, restarted and stopped, as users run it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.demo.datasets import flight_rows
from local.demo.expected import as_json, latest_departures
from local.errors import tail
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.processes import end, spawn
from local.waiting import wait_until
from spark.errors import JobError
from spark.options import parse
from spark.run import main
from spark.session import settings as session_settings
from spark.settings import Settings
from spark.views import VIEWS
from tests.pipelines.processes import in_session
from tests.support.spark.examples import flight
from tests.support.topics import Writer, history

ROOT = Path(__file__).parents[3]
FLIGHTS = 6_000


class Job:
    """`python -m spark.run`, and its progress file."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        self.log_path = folder / "spark.log"
        self.progress_path = folder / "progress.json"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        command = [sys.executable, "-m", "spark.run", *more]
        command += ["--bootstrap-servers", self._servers]
        command += ["--checkpoint-dir", str(self._folder / "checkpoints")]
        command += ["--progress", str(self.progress_path)]
        env = os.environ | {"TMPDIR": str(self.temporary)}
        self.process = spawn(command, self.log_path, env=env, cwd=ROOT)

    def wait_end(self, timeout: float = 90) -> int:
        assert self.process is not None
        return self.process.wait(timeout)

    def wait_rows(self, count: int, source: str, view: str, of: str = "source_offsets") -> None:
        """Waits until `count` records of the raw topic are in the view topic (or were read)."""

        def done() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, tail(self.log(), 30)
            if not self.progress_path.exists():
                return False
            progress: dict[str, Any] = json.loads(self.progress_path.read_text())
            return sum(progress[view][of].get(source, {}).values()) >= count

        wait_until(done, 90, f"{count} records of {source}", 0.05)

    def kill(self) -> None:
        """Kills the Python process and its JVM at the same time."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            end(self.process, 20)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for this module, because the views' topics have fixed names. The examples of the
    docs create the same topics, with other partitions."""
    with Broker(tmp_path_factory.mktemp("spark-run")) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def job(servers: str, tmp_path: Path) -> Iterator[Job]:
    made = Job(servers, tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_failure_is_reported_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Settings) -> None:
        raise JobError("no topic texts: create it.")

    monkeypatch.setattr("spark.run.run", fail)
    assert main(["--checkpoint-dir", "x"]) == 1
    assert capfd.readouterr().err == "error: no topic texts: create it.\n"


def test_a_killed_job_continues_and_the_view_is_right(servers: str, job: Job) -> None:
    few = ("latest-departure", "--max-offsets-per-trigger", "500", "--trigger", "0 seconds")
    job.start(*few)  # its topics are created while it starts, or waits for them
    create_topics(
        quiet_admin(servers),
        [Topic("flights", 3, {}), Topic("latest-departure", 3, {"cleanup.policy": "compact"})],
    )
    rows = list(flight_rows())[:FLIGHTS]
    random.Random(3).shuffle(rows)
    records = [
        (
            None if row["tailnum"] == "NA" else row["tailnum"].encode(),
            json.dumps(as_json(row)).encode(),
        )
        for row in rows
    ]
    writer = Writer(servers)
    writer.send("flights", records[: FLIGHTS // 2])
    job.wait_rows(500, "flights", "latest-departure")
    job.kill()
    libraries = list(job.temporary.glob("*/librocksdb*"))
    assert libraries, "they remain"
    writer.send("flights", records[FLIGHTS // 2 :])
    job.start("latest-departure")
    job.wait_rows(FLIGHTS, "flights", "latest-departure")
    job.wait_rows(FLIGHTS, "flights", "latest-departure", "dead_letter_offsets")
    assert job.process is not None
    now = list(job.temporary.glob("*/librocksdb*"))
    assert now
    assert not {*now} & {*libraries}, "those of the killed job are deleted"
    job.process.send_signal(signal.SIGTERM)
    assert job.wait_end() == 0
    # The Java process has ended, too, and has deleted its temporary files.
    assert [each for each in in_session(job.process.pid) if "java" in each.command] == []
    assert list(job.temporary.iterdir()) == []

    logs = history(servers, "latest-departure", 3)
    table = {
        key.decode(): json.loads(value or b"null")
        for log in logs
        for _, _, key, value in log.records
    }
    assert table == latest_departures(rows)
    for partition, log in enumerate(logs):
        times: dict[bytes, str] = {}
        for _, _, key, value in log.records:
            time = json.loads(value or b"{}")["time"]
            assert time >= times.get(key, ""), (partition, key)
            times[key] = time
    [letters] = history(servers, "flights.dead-letter", 1)
    wanted = Counter(value for key, value in records if key is None)
    # at least once, but under the same key
    assert Counter({key: value for _, _, key, value in letters.records}.values()) == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-view", "--checkpoint-dir", "x"], "no view no-such-view; known views: "),
        (["--checkpoint-dir", "x", "--jars", "/nonexistent"], "no *.jar in"),
        (["--checkpoint-dir", "x", "--kafka-option", "oops"], "is not KEY=VALUE"),
        (["--checkpoint-dir", "x", "--views-toml", "no-such-file"], "no-such-file: No such file"),
        (["--checkpoint-dir", "x", "--views-toml", "pyproject.toml"], "unknown table"),
        ([], "--checkpoint-dir"),
    ],
)
def test_wrong_usage_is_reported_with_status_2(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert message in capfd.readouterr().err


def test_secrets_are_refused_on_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    option = "sasl.jaas.config=a.b.PlainLoginModule required password=s3cret;"
    with pytest.raises(SystemExit):
        parse(["--checkpoint-dir", "x", "--kafka-option", option])
    said = capfd.readouterr().err
    assert "sasl.jaas.config would be visible to other users" in said
    assert "s3cret" not in said


def test_java_gets_references_but_the_job_checks_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    views = tmp_path / "views.toml"
    text = (ROOT / "views.toml").read_text()
    views.write_text(f'{text}\n[kafka]\n"sasl.mechanism" = "PLAIN"\n"sasl.username" = "u"\n'
                     '"sasl.password" = "${env:KAFKA_PASSWORD}"\n')  # fmt: skip
    arguments = ["--checkpoint-dir", "x", "--views-toml", str(views)]
    for password, why in (("", "KAFKA_PASSWORD is not set"), ('s3"cret', "a quotation mark")):
        monkeypatch.setenv("KAFKA_PASSWORD", password)
        with pytest.raises(SystemExit):
            parse(arguments)
        said = capfd.readouterr().err
        assert "[kafka] sasl.password: " in said
        assert why in said
        assert 's3"cret' not in said
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
    client = parse(arguments).kafka.client()
    assert 'password="${env:KAFKA_PASSWORD}";' in client["sasl.jaas.config"]
    assert client["config.providers"] == "env"


def test_the_kafka_table_of_views_toml_reaches_the_java_client(tmp_path: Path) -> None:
    views = tmp_path / "views.toml"
    text = (ROOT / "views.toml").read_text()
    views.write_text(f'{text}\n[kafka]\n"security.protocol" = "SASL_SSL"\n"sasl.username" = "u"\n'
                     '"sasl.mechanism" = "PLAIN"\n"sasl.password" = "p"\n')  # fmt: skip
    more = ["--kafka-option", "sasl.mechanism=SCRAM-SHA-512"]
    given = parse(["--checkpoint-dir", "x", "--views-toml", str(views), *more])
    client = given.kafka.client()
    assert client["security.protocol"] == "SASL_SSL"
    assert client["sasl.mechanism"] == "SCRAM-SHA-512"
    assert 'username="u" password="p"' in client["sasl.jaas.config"]


def test_the_class_archive_is_used_if_it_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    archive = tmp_path / "spark.jsa"
    monkeypatch.setattr("spark.session.ARCHIVE", archive)
    name = "spark.driver.extraJavaOptions"
    assert str(archive) not in session_settings({}, [])[name]
    archive.touch()
    assert str(archive) in session_settings({}, [])[name]
    assert f"{archive} -Xfoo " in session_settings({name: "-Xfoo"}, [])[name]
    assert str(archive) not in session_settings({"spark.master": "spark://a:1"}, [])[name]


@pytest.mark.parametrize("master", ["local[2]", "spark://a:1"])
def test_each_driver_has_large_stacks_unless_the_user_says_otherwise(master: str) -> None:
    """Regression: a driver of a cluster, and one with options of the user, had small ones."""
    name = "spark.driver.extraJavaOptions"
    for given in ({}, {name: "-Xfoo"}, {name: "-Xss4m"}):
        options = session_settings({"spark.master": master, **given}, [])[name].split()
        stacks = [option for option in options if option.startswith("-Xss")]
        # the last one counts
        assert stacks == ["-Xss32m", *(option for option in given.values() if "ss" in option)]


def test_help_has_examples_and_fits_the_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark.run", "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert "examples:" in done.stdout
    assert all(name in done.stdout for name in VIEWS)
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_examples_have_the_fields_of_the_raw_topic() -> None:
    assert json.loads(flight()[1]).keys() == as_json(next(iter(flight_rows()))).keys()
