"""Spark's job as a process that is started again whenever it ends, as by a service manager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark

from local.errors import LocalError, tail
from local.processes import how_it_ended, spawn
from local.settings import REPOSITORY
from local.waiting import stretch, wait_until
from spark.session import ON_FEW_CORES
from tests.pipelines.processes import Process, Processes, in_session, kill, processes_of
from tests.pipelines.views import VIEWS_TOML

LOCAL = "local[2]"
LOCAL_CLUSTER = "local-cluster[2,1,1024]"

_CLUSTER_CONF = {
    "spark.executor.memory": "768m",
    "spark.executor.extraJavaOptions": ON_FEW_CORES,
    "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
}
_STOP_TIMEOUT = 60.0  # s


class Job:
    """`python -m spark.run` with all `views`. All methods must be called in one thread."""

    def __init__(self, views: Sequence[str], servers: str, master: str, folder: Path) -> None:
        self.checkpoints = folder / "checkpoints"
        self.log_path = folder / "spark.log"
        self.starts = 0
        self.unexpected: list[str] = []
        self._killed = False
        self._progress_path = folder / "progress.json"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: list[int] = []
        self._began = 0.0
        self._command = [
            *(sys.executable, "-m", "spark.run", *views, "--bootstrap-servers", servers),
            *("--views-toml", str(VIEWS_TOML)),
            *("--checkpoint-dir", str(self.checkpoints), "--progress", str(self._progress_path)),
            *("--trigger", "0 seconds", "--max-offsets-per-trigger", "2000", "--master", master),
        ]
        self._environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        if master == LOCAL_CLUSTER:
            for name, value in _CLUSTER_CONF.items():
                self._command += ["--conf", f"{name}={value}"]
            self._environment["SPARK_HOME"] = str(spark_home(folder))

    @property
    def age(self) -> float:
        """Seconds since the last start."""
        return time.monotonic() - self._began

    def start(self) -> None:
        self._killed = False
        self._progress_path.unlink(missing_ok=True)
        # a folder of its own, because Spark writes files there
        self._process = spawn(self._command, self.log_path, env=self._environment, cwd=self._folder)
        self._sessions.append(self._process.pid)
        self._began = time.monotonic()
        self.starts += 1

    def keep_running(self) -> None:
        """Starts the job again if it has ended. Call this while waiting."""
        if self._process is None:
            self.start()
        elif (status := self._process.poll()) is not None:
            if not self._killed:
                self.unexpected.append(f"{how_it_ended(status)}: {self._last_line()}")
            self.start()

    def processes(self) -> Processes:
        assert self._process is not None
        return processes_of(self._process.pid)

    def kill_driver(self) -> None:
        """Kills the Python process alone."""
        assert self._process is not None
        self.expect_end()
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """Kills all processes of the job, as if the container or machine had failed."""
        assert self._process is not None
        self.expect_end()
        self._process.kill()
        for each in in_session(self._process.pid):
            kill(each)
        self._process.wait()

    def expect_end(self) -> None:
        """The job will end because of a kill."""
        self._killed = True

    def progress(self) -> dict[str, Any]:
        """By view; empty if the job has not started yet."""
        try:
            found: dict[str, Any] = json.loads(self._progress_path.read_text())
        except OSError:
            return {}
        return found

    def survivors(self) -> list[Process]:
        """The processes of earlier starts that still live."""
        running = self._process.pid if self._process and self._process.poll() is None else 0
        earlier = [each for each in self._sessions if each != running]
        return [each for session in earlier for each in in_session(session)]

    def stop(self) -> str:
        """Ends the job with SIGTERM; returns what is wrong with how it ended, or an empty text."""
        if self._process is None or self._process.poll() is not None:
            return "the job was not running at the end"
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(_STOP_TIMEOUT * stretch())
        except subprocess.TimeoutExpired:
            return f"the job did not end within {_STOP_TIMEOUT:g} s or more of SIGTERM"
        return "" if status == 0 else f"the job ended with {how_it_ended(status)} after SIGTERM"

    def close(self) -> None:
        """Kills everything that is left of all starts."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

        def none_left() -> bool:
            left = [each for session in self._sessions for each in in_session(session)]
            for each in left:
                kill(each)
            return not left

        with suppress(LocalError):
            wait_until(none_left, 20, "the job's processes to end")

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _last_line(self) -> str:
        return tail(self.log(), 1).strip()


def spark_home(folder: Path) -> Path:
    """A folder with links to the installed Spark, because executors write into SPARK_HOME."""
    home = folder / "spark-home"
    home.mkdir(parents=True, exist_ok=True)
    for path in Path(pyspark.__file__).parent.iterdir():
        if not (home / path.name).is_symlink():
            (home / path.name).symlink_to(path)
    return home
