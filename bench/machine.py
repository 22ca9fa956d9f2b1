"""Facts about the machine, and versions of the software; no names of hosts."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka

from bench.load import find_wrk
from bench.proc import parse_kb
from local.kafka.jars import kafka_jars
from local.stack.nginx import find_nginx, workers_beside_backends

_PACKAGES = ("gunicorn", "gunicorn_h1c", "uvloop", "rocksdict", "confluent-kafka", "kafka-python")


def facts() -> dict[str, Any]:
    """Cores, memory, workers of nginx, system, interpreter and versions."""
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    memory = parse_kb(Path("/proc/meminfo").read_text(), "MemTotal")
    kafka = next((jar.stem for jar in sorted(kafka_jars().glob("kafka_2.*.jar"))), "kafka")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "nginx_workers": workers_beside_backends(),
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "memory_gb": round(memory * 1024 / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "interpreter": interpreter(),
        "versions": {
            **{package: version(package) for package in _PACKAGES},
            "librdkafka": confluent_kafka.libversion()[0],
            "kafka": kafka.partition("-")[2],
            "nginx": _first_number([find_nginx(), "-v"]),
            "wrk": _first_number([find_wrk(), "-v"]),
        },
    }


def interpreter() -> dict[str, Any]:
    """The interpreter of the bench, of the backends and of the references in Python. `pgo` and
    `lto`: whether it was built with these optimizations; both None if that is unknown."""
    declared = {
        name: str(sysconfig.get_config_var(name) or "")
        for name in ("CONFIG_ARGS", "PY_CFLAGS", "PY_CORE_CFLAGS", "PY_CORE_LDFLAGS")
    }
    is_shared = "libpython" in Path("/proc/self/maps").read_text()
    # Debian declares the build of its shared library. Its interpreter is another build, without
    # that library.
    is_declared_build = is_shared or not sysconfig.get_config_var("Py_ENABLE_SHARED")
    return {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "path": sys.executable,
        **(optimizations(declared) if is_declared_build else {"pgo": None, "lto": None}),
    }


def optimizations(declared: Mapping[str, str]) -> dict[str, bool]:
    """Whether a build has PGO and LTO, from its configure options and its flags."""
    text = " ".join(declared.values())
    return {
        "pgo": bool(re.search(r"--enable-optimizations\b(?!=no)|-fprofile-use\b", text)),
        "lto": bool(re.search(r"--with-lto\b(?!=no)|-flto\b", text)),
    }


def describe_interpreter(facts: Mapping[str, Any]) -> str:
    """`CPython 3.11.7, built with PGO and without LTO`."""
    name = f"{facts['implementation']} {facts['version']}"
    if facts["pgo"] is None:
        return f"{name}, built in an unknown way"
    pgo, lto = ("with" if facts[name] else "without" for name in ("pgo", "lto"))
    return f"{name}, built {pgo} PGO and {lto} LTO"


def _first_number(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return match.group(0) if match else "?"
