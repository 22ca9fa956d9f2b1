"""The end of Spark's Java process: RocksDB is closed first, and the process ends in a bounded time.

The end of a JVM, also by ``Runtime.halt``, is exit(3) of the C library, which waits for RocksDB's
threads. If a database is open, such a thread may wait for the JVM, to write to its log, while the
JVM waits for the thread. So all databases are closed first. The JVM is not simply killed, because
it deletes its temporary files when it ends: one of them is RocksDB's library, with 60 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

MAX_SECONDS = 20.0
"""The time for the end of the JVM after a job. The JVM usually ends within a second."""

_SUBMIT = b"org.apache.spark.deploy.SparkSubmit"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.StateStore"
# Spark runs hooks with higher numbers first: it stops the context at 50, and deletes its temporary
# folders, with the databases, at 25.
_PRIORITY = 30
_KILL_LATER = """
import select, signal, sys
pidfd, seconds = int(sys.argv[1]), float(sys.argv[2])
poll = select.poll()
poll.register(pidfd, select.POLLIN)
if not poll.poll(seconds * 1000):
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
"""


def close_state_at_exit(jvm: Any) -> Any:
    """Adds a shutdown hook to Spark that closes all databases of state; returns the hook."""
    java = jvm.java.lang
    handles = java.invoke.MethodHandles.publicLookup()
    nothing = java.invoke.MethodType.methodType(java.Void.TYPE)
    stop = handles.findStatic(java.Class.forName(_STATE_STORE), "stop", nothing)
    function = java.Class.forName("scala.Function0")
    hook = java.invoke.MethodHandleProxies.asInterfaceInstance(function, stop)
    jvm.org.apache.spark.util.ShutdownHookManager.addShutdownHook(_PRIORITY, hook)
    return hook


def end_spark() -> None:
    """Stops the session of this process, if it has one, and ends the JVM that this process has
    started. Kills the JVM if this takes longer than ``MAX_SECONDS``.

    ``spark-submit`` ends its JVM after this process, with the same exit status. That JVM is killed
    if both take longer, except in YARN's cluster mode.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return
    if (process := gateway.proc) is None:
        if _is_submit(os.getppid()):
            kill_later(os.getppid(), MAX_SECONDS)
        _stop_session()
        return
    with killed_after(process.kill, MAX_SECONDS):
        _stop_session()
        with suppress(Py4JError, OSError):
            gateway.shutdown()
        # The JVM ends when its input ends.
        with suppress(OSError):
            process.stdin.close()
        process.wait()


@contextmanager
def killed_after(kill: Callable[[], object], seconds: float) -> Iterator[None]:
    """Calls ``kill`` if the block takes longer than ``seconds``."""
    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def kill_later(pid: int, seconds: float) -> subprocess.Popen[bytes]:
    """Starts a helper process that kills process ``pid`` after ``seconds``, or ends when process
    ``pid`` has ended. The helper outlives this process. Raises ``OSError`` if there is no process
    ``pid``."""
    pidfd = os.pidfd_open(pid)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _KILL_LATER, str(pidfd), str(seconds)],
            pass_fds=[pidfd],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    finally:
        os.close(pidfd)


def _stop_session() -> None:
    context = SparkContext._active_spark_context
    if context is not None:
        # If a signal has also ended the JVM, the session has already stopped.
        with suppress(Py4JError, PySparkException, OSError):
            context.stop()


def _is_submit(pid: int) -> bool:
    """Whether the process is spark-submit's JVM. In YARN's cluster mode it is YARN's."""
    try:
        return _SUBMIT in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
