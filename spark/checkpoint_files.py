"""Small JSON documents in the checkpoint of a view, on any file system that Hadoop supports."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def read_json(session: SparkSession, path: str) -> Any:
    """The document; None if there is no such file."""
    jvm, file, files = _opened(session, path)
    if not files.exists(file):
        return None
    stream = files.open(file)
    try:
        return json.loads(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8") or "null")
    finally:
        stream.close()


def write_json(session: SparkSession, path: str, document: object) -> None:
    """Creates or replaces the file."""
    _, file, files = _opened(session, path)
    stream = files.create(file, True)
    try:
        stream.write(json.dumps(document).encode())
    finally:
        stream.close()


def _opened(session: SparkSession, path: str) -> tuple[Any, Any, Any]:
    jvm: Any = session._jvm
    file = jvm.org.apache.hadoop.fs.Path(path)
    return jvm, file, file.getFileSystem(session._jsc.hadoopConfiguration())
