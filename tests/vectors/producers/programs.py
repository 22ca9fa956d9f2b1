"""Builds and runs the programs that write records with the defaults of other producers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from local.kafka.jars import kafka_jars
from local.kafka.java import find_java
from local.settings import REPOSITORY
from model.machine.cache import cache_folder
from tests.vectors.producers.keys import Key

HERE = Path(__file__).parent
_BUILD_S = 900
_RUN_S = 120


class MissingTool(Exception):
    """A program cannot be built on this machine."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record. `key`: None for a record without a key."""

    topic: str
    key: Key | None
    value: str

    @property
    def line(self) -> str:
        kind, written = self.key or ("null", "")
        return f"{self.topic}\t{kind}\t{written}\t{self.value}\n"


@dataclass(frozen=True, slots=True)
class Program:
    """`partitioner`: that of views which fits its records. `command` may raise MissingTool.
    `options`: for another partitioner than the producer's default. `setting`: its name there."""

    producer: str
    partitioner: str
    command: Callable[[], list[str]]
    options: tuple[str, ...] = ()
    setting: str = "default"

    def run(self, servers: str, records: Iterable[Sent]) -> str:
        """Write the records; return the version of the producer. `servers`: one address."""
        done = subprocess.run(
            [*self.command(), servers, *self.options],
            input="".join(record.line for record in records),
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_S,
            cwd=REPOSITORY,
            env=_environment(),
        )
        assert done.returncode == 0, f"{self.producer}: {done.stdout}{done.stderr}"
        return done.stdout.split()[-1]


def _environment() -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}


def _java() -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [find_java(), quiet, "-cp", f"{kafka_jars()}/*", str(HERE / "JavaProducer.java")]


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.vectors.producers.{name}"]


def _go(name: str) -> Callable[[], list[str]]:
    return lambda: [str(_go_programs() / name)]


@cache
def _go_programs() -> Path:
    folder = _folder("go")
    _build([_tool("go"), "build", "-o", f"{folder}/", "./..."], HERE)
    return folder


def _node() -> list[str]:
    return [_tool("node"), str(_node_folder() / "kafkajs.mjs")]


@cache
def _node_folder() -> Path:
    npm, folder = _tool("npm"), _folder("node")
    for name in ("kafkajs.mjs", "package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    _build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return folder


def _folder(name: str) -> Path:
    folder = cache_folder() / "producers" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingTool(f"{name} is not installed")
    return path


def _build(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_BUILD_S
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"


PROGRAMS = {
    "java": Program("Kafka's Java client", "murmur2", _java),
    "librdkafka": Program("librdkafka", "crc32", _python("librdkafka")),
    "kafka-python": Program("kafka-python", "murmur2", _python("kafka_python")),
    "sarama": Program("Sarama", "fnv1a", _go("sarama")),
    "sarama-reference": Program(
        "Sarama", "none", _go("sarama"), ("reference",), "NewReferenceHashPartitioner"
    ),
    "franz-go": Program("franz-go", "murmur2", _go("franz-go")),
    "kafka-go": Program("kafka-go", "none", _go("kafka-go")),
    "kafka-go-hash": Program("kafka-go", "fnv1a", _go("kafka-go"), ("hash",), "Hash"),
    "kafka-go-murmur2": Program(
        "kafka-go", "murmur2", _go("kafka-go"), ("murmur2",), "Murmur2Balancer"
    ),
    "kafkajs": Program("KafkaJS", "murmur2", _node),
    "kafkajs-legacy": Program("KafkaJS", "none", _node, ("legacy",), "LegacyPartitioner"),
}
"""By the name of the file with the vectors."""
