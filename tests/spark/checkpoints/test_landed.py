"""Checkpoints that an earlier release has made continue. The folder ``landed`` has them, with the
views as their user wrote them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local.kafka.broker import Broker
from spark.checkpoints.check import FILE
from spark.errors import JobError
from spark.options import parse
from spark.supervision.signals import StopSignal
from spark.supervision.supervisor import supervise
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history

LANDED = Path(__file__).parent / "landed"
READ = [("a", 1), ("b", 5), ("a", 2), ("b", 5)]
"""The records that the checkpoints have read."""


def test_checkpoints_of_an_earlier_release_continue(
    session: SparkSession,
    broker: Broker,
    make_topic: MakeTopic,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    views = ("landed-bytes", "landed-hosts", "landed-lengths")
    make_topic(name="landed-requests")
    for name in views:
        make_topic(name=name, cleanup_policy="compact")
    checkpoints, own = tmp_path / "checkpoints", tmp_path / "own"
    with tarfile.open(LANDED / "checkpoints.tar.gz") as archive:
        archive.extractall(checkpoints, filter="data")
    own.mkdir()
    for file in ("views.toml", "hosts.py", "lengths.py"):
        (own / file).write_bytes((LANDED / file).read_bytes())
    writer = Writer(broker.bootstrap_servers)

    def run(*rows: tuple[str, int]) -> None:
        lines = [json.dumps({"client": name, "bytes": size}).encode() for name, size in rows]
        writer.send("landed-requests", [(b"k", line) for line in lines])
        servers = ["--bootstrap-servers", broker.bootstrap_servers]
        given = ["--once", "--views-toml", str(own / "views.toml"), *servers]
        supervise(session, parse([*given, "--checkpoint-dir", str(checkpoints)]), StopSignal())

    def written(view: str) -> list[tuple[bytes, bytes]]:
        [log] = history(broker.bootstrap_servers, view, 1)
        return [(key, value or b"") for _, _, key, value in log.records]

    run(*READ, ("b", 5), ("a", 7))
    # only what the new records change, from the state of the checkpoint
    assert written("landed-bytes") == [(b"a", b'{"requests":3,"bytes":10}')]
    numbers = {view: {key: value[-1] for key, value in written(view)} for view in views[1:]}
    assert numbers["landed-hosts"] == {b"a": 3, b"b": 3}
    assert numbers["landed-lengths"] == {b"five": 3, b"many": 1}
    logged = capsys.readouterr()
    assert (logged.out + logged.err).count("an earlier release has made its checkpoint") == 3
    # From now on, an edit of what the user wrote is refused.
    formats = {json.loads((checkpoints / view / FILE).read_text())["format"] for view in views}
    assert formats == {2}
    run(("a", 1))
    hosts = own / "hosts.py"
    hosts.write_text(hosts.read_text().replace('col("client")', 'upper("client")'))
    with pytest.raises(JobError, match="landed-hosts is not started: its rule is not that of"):
        run(("a", 1))
