"""A job with a real-time view as a process that is killed, and stopped, while a batch runs."""

from __future__ import annotations

import signal
from pathlib import Path

from local.kafka.broker import Broker
from local.waiting import wait_until
from tests.support.plugins.fixtures import MakeTopic
from tests.support.topics import Writer, history
from tests.system.spark.test_run import Job

VIEW = """\
from pyspark.sql import functions as F

from spark.formats.decoders import TextDecoder
from spark.view import View


def lines(texts):
    return texts.select(F.col("text").alias("key"), F.lit("x").alias("value"))


VIEW = View(source="SOURCE", decoder=TextDecoder(), derive=lines)
"""
TOML = """\
[views.lines]
topic = "TOPIC"
key = "string"
value = "string"
spark_view = "lines.py"
trigger = "real-time"
"""


def test_a_kill_in_a_batch_loses_nothing(
    broker: Broker, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source = make_topic(partitions=3)
    make_topic(name=f"{source}.dead-letter", cleanup_policy="compact")
    target = make_topic(partitions=3, cleanup_policy="compact")
    (tmp_path / "lines.py").write_text(VIEW.replace("SOURCE", source))
    (tmp_path / "views.toml").write_text(TOML.replace("TOPIC", target))
    writer = Writer(broker.bootstrap_servers)
    job = Job(broker.bootstrap_servers, tmp_path)

    def write(name: str) -> set[bytes]:
        texts = {f"{name}{number}".encode() for number in range(30)}
        writer.send(source, [(text, text) for text in texts])
        return texts

    def wait_for(texts: set[bytes]) -> None:
        def are_there() -> bool:
            logs = history(broker.bootstrap_servers, target, 3)
            return texts == {key for log in logs for _, _, key, _ in log.records}

        wait_until(are_there, 60, "the texts in the view", 0.1)

    def start() -> None:
        # The batch is longer than the test.
        job.start("--views-toml", str(tmp_path / "views.toml"), "--real-time-batch", "5 minutes")

    texts = write("one")
    start()
    wait_for(texts)
    job.kill()
    texts |= write("two")
    start()
    wait_for(texts)
    assert "real-time views: --master local[5]" in job.log()
    assert job.process is not None
    job.process.send_signal(signal.SIGTERM)
    assert job.wait_end(60) == 0, "long before the end of the batch"
