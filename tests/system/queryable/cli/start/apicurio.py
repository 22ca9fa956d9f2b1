"""A real schema registry: Apicurio. Maven fetches its archive once (109 MB)."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import orjson

from local import http
from local.errors import tail
from local.kafka.java import find_java
from local.ports import LOOPBACK, free_ports
from local.processes import end, spawn
from local.waiting import wait_until
from model.http.requests import send
from model.machine.cache import cache_folder

_VERSION = "3.0.9"
_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{_VERSION}:tar.gz:all"
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TIMEOUT = 120.0  # s until it answers
_FETCH_TIMEOUT = 600.0  # s
_API = "/apis/ccompat/v7"  # the one of Confluent's registry


class Apicurio:
    """Runs on a port of its own, with its data in memory."""

    def __init__(self, port: int) -> None:
        self.home = f"http://{LOOPBACK}:{port}"
        self.url = f"{self.home}{_API}"

    def register(self, subject: str, schema_type: str, text: str) -> int:
        """The id of the schema."""
        body = orjson.dumps({"schema": text, "schemaType": schema_type})
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        url = f"{self.url}/subjects/{quote(subject, safe='')}/versions"
        answer = send(url, 30.0, 1 << 20, headers=headers, body=body)
        assert answer.is_success, answer
        return int(orjson.loads(answer.body)["id"])


@contextmanager
def apicurio(folder: Path) -> Iterator[Apicurio]:
    """Runs the registry with its log in the folder."""
    [port] = free_ports(1)
    registry, log = Apicurio(port), folder / "apicurio.log"
    options = (f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}")
    jar = _unpacked() / f"apicurio-registry-app-{_VERSION}-runner.jar"
    process = spawn([find_java(), *_JVM, *options, "-jar", str(jar)], log, cwd=folder)
    try:

        def is_ready() -> bool:
            assert process.poll() is None, tail(log.read_text())
            return http.get(f"{registry.url}/subjects").status == 200

        wait_until(is_ready, _TIMEOUT, "Apicurio to answer", 0.2)
        yield registry
    finally:
        end(process, 10.0)


def _unpacked() -> Path:
    """The folder of the archive; fetches it first if it is not there."""
    target = cache_folder() / f"apicurio-{_VERSION}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".apicurio-", dir=target.parent))
    try:
        fetch = ("dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={work}")
        done = subprocess.run(
            ["mvn", "--batch-mode", "--quiet", *fetch],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=work,
            timeout=_FETCH_TIMEOUT,
        )  # fmt: skip
        assert done.returncode == 0, tail(done.stdout)
        [archive] = work.glob("*.tar.gz")
        with archive.open("rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == _SHA256
        with tarfile.open(archive) as files:
            files.extractall(work / "files", filter="data")
        if not target.exists():  # another process may have fetched it
            (work / "files").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
