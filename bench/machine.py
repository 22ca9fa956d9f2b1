"""Facts about the machine, and versions of the software; no names of hosts or users."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka

from bench.load import find_wrk
from bench.proc import parse_kb
from bench.redis import find_redis
from local.kafka.jars import kafka_jars
from local.stack.nginx import find_nginx, workers_beside_backends

_PACKAGES = ("gunicorn", "gunicorn_h1c", "uvloop", "rocksdict", "confluent-kafka", "kafka-python")


def facts() -> dict[str, Any]:
    """Cores, memory, workers of nginx, system and versions."""
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = parse_kb(Path("/proc/meminfo").read_text(), "MemTotal")
    kafka = next((jar.stem for jar in sorted(kafka_jars().glob("kafka_2.*.jar"))), "kafka")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "nginx_workers": workers_beside_backends(),
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "memory_gb": round(memory * 1024 / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {
            **{package: version(package) for package in _PACKAGES},
            "librdkafka": confluent_kafka.libversion()[0],
            "kafka": kafka.partition("-")[2],
            "nginx": _first_number([find_nginx(), "-v"]),
            "wrk": _first_number([find_wrk(), "-v"]),
            "redis": _first_number([find_redis(), "-v"]),
        },
    }


def _first_number(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found.group(0) if found else "?"
