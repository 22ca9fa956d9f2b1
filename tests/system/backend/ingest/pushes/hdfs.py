"""An HDFS, as a process."""

from __future__ import annotations

import os
import selectors
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from local.errors import tail
from local.kafka.jars import JarSet, resolve
from local.kafka.java import find_java
from model.machine.cache import cache_folder

_SOURCE = Path(__file__).with_name("MiniHdfs.java")
# pyspark has the other jars, in the same version
_JARS = JarSet(
    "hdfs",
    ("org.apache.hadoop:hadoop-client-minicluster:3.5.0",),
    transitive=False,
    sums=Path(__file__).with_name("hdfs-jars.sha256"),
)
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TIMEOUT = 300.0  # s until it runs, and until it has ended, on a loaded machine


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Runs an HDFS with its data in a new folder; the URL of its root."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    classes = os.pathsep.join(f"{jars}/*" for jars in (resolve(_JARS, cache_folder()), spark_jars))
    folder.mkdir()
    log = folder / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [find_java(), *_JVM, "-cp", classes, str(_SOURCE), str(folder / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            with selectors.DefaultSelector() as ready:
                ready.register(process.stdout, selectors.EVENT_READ)
                assert ready.select(_TIMEOUT), "HDFS did not start"
            url = process.stdout.readline().decode().strip()
            assert url, tail(log.read_text())
            yield url
        finally:
            process.kill()
