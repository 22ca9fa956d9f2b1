"""Small JSON files in a checkpoint folder, in any file system that Hadoop supports."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from spark.errors import JobError, rebuild

_NEW = ".new"


class CheckpointFiles:
    """Reads, replaces and deletes files. Paths are Hadoop's."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm: Any = session._jvm
        self._configuration = session._jsc.hadoopConfiguration()

    def read(self, path: str) -> str | None:
        """The content of a file; None if it does not exist."""
        text = self._content(path)
        if text is not None:
            return text
        # It may be incomplete only if the job ended during the first write of this file.
        text = self._content(path + _NEW)
        return text if text is not None and _is_complete(text) else None

    def _content(self, path: str) -> str | None:
        hadoop_path, files = self._find(path)
        if not files.exists(hadoop_path):
            return None
        stream = files.open(hadoop_path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8") or "")
        finally:
            stream.close()

    def read_json(self, path: str) -> Any:
        """The document in a file; None if it does not exist. Raises ``JobError`` if it is damaged,
        or empty after a power failure."""
        text = self.read(path)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            folder = path.rpartition("/")[0]
            raise JobError(f"{path} cannot be read: {error}. {rebuild(folder)}") from error

    def replace_json(self, path: str, document: object) -> None:
        """Writes a document; see ``replace``."""
        self.replace(path, json.dumps(document))

    def replace(self, path: str, content: str) -> None:
        """Writes a file. After a crash, ``read`` returns the old content or the new one."""
        target, files = self._find(path)
        new, _ = self._find(path + _NEW)
        stream = files.create(new, True)
        try:
            stream.write(content.encode())
        finally:
            stream.close()
        # Some file systems, such as HDFS, do not replace a file.
        if not files.rename(new, target):
            files.delete(target, False)
            files.rename(new, target)

    def has_files(self, path: str) -> bool:
        """Whether the path is a folder that is not empty."""
        hadoop_path, files = self._find(path)
        return bool(files.exists(hadoop_path) and len(files.listStatus(hadoop_path)))

    def names(self, path: str) -> list[str]:
        """The names of the files and folders in a folder; empty if it does not exist."""
        hadoop_path, files = self._find(path)
        if not files.exists(hadoop_path):
            return []
        return [str(status.getPath().getName()) for status in files.listStatus(hadoop_path)]

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder with its content. Does nothing if it does not exist."""
        for file in (path, path + _NEW):
            hadoop_path, files = self._find(file)
            files.delete(hadoop_path, True)

    def _find(self, path: str) -> tuple[Any, Any]:
        """The path, and its file system."""
        hadoop_path = self._jvm.org.apache.hadoop.fs.Path(path)
        return hadoop_path, hadoop_path.getFileSystem(self._configuration)


def _is_complete(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
