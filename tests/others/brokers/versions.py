"""The versions of Kafka's brokers that are tested, and their jars."""

from __future__ import annotations

import sys
from pathlib import Path

from local.kafka.jars import KAFKA, JarSet, pin, resolve
from model.machine.cache import cache_folder

_HERE = Path(__file__).parent


def _jar_set(version: str) -> JarSet:
    return JarSet(
        f"kafka-{version}",
        (f"org.apache.kafka:kafka_2.13:{version}", "org.slf4j:slf4j-simple:1.7.36"),
        transitive=True,
        sums=_HERE / f"kafka-{version}.sha256",
    )


JAR_SETS = {
    "2.8.2": _jar_set("2.8.2"),
    "3.4.1": _jar_set("3.4.1"),
    "3.9.1": _jar_set("3.9.1"),
    "4.1.0": KAFKA,
    "4.3.1": _jar_set("4.3.1"),
}


def jars_of(version: str) -> Path:
    """The folder with the jars of a broker. Raises LocalError."""
    return resolve(JAR_SETS[version], cache_folder())


if __name__ == "__main__":  # after a change of a version: write its file of checksums
    for version in sys.argv[1:]:
        pin(JAR_SETS[version])
