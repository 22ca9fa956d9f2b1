"""Writes the vectors of producers: runs each program, and reads where its records are.

python -m tests.vectors.producers [NAME…]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from tests.support.topics import history
from tests.vectors.producers.keys import KEYS, PARTITIONS
from tests.vectors.producers.programs import PROGRAMS, Program, Sent


def lines(name: str, program: Program, servers: str) -> list[str]:
    """The file of a program."""
    topics = {count: f"{name}-{count}" for count in PARTITIONS}
    keys = list(dict.fromkeys(key for named in KEYS.values() for key in named))
    create_topics(quiet_admin(servers), [Topic(topic, count) for count, topic in topics.items()])
    version = program.run(
        servers, [Sent(topic, key, "1") for topic in topics.values() for key in keys]
    )
    places = {
        count: {
            key: partition
            for partition, log in enumerate(history(servers, topic, count))
            for _, _, key, _ in log.records
        }
        for count, topic in topics.items()
    }
    header = {
        "producer": program.producer,
        "version": version,
        "setting": program.setting,
        "partitioner": program.partitioner,
        "partitions": PARTITIONS,
    }
    raw = dict.fromkeys(key.raw for key in keys)
    return [
        json.dumps(header),
        *(json.dumps([key.hex(), [places[count][key] for count in PARTITIONS]]) for key in raw),
    ]


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        for name in names or PROGRAMS:
            text = "\n".join(lines(name, PROGRAMS[name], broker.bootstrap_servers))
            Path(__file__).with_name(f"{name}.jsonl").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
