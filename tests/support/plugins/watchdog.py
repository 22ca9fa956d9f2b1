"""A pytest plugin: ends a run that hangs, and reports failures at once.

There are three time-outs, each for hangs that the previous one cannot end (pyproject.toml sets the
first two):

1. pytest-timeout raises in a test that takes too long. Its worker continues with the next test.
2. faulthandler prints all stacks of a worker that ignores signals (a call into C that does not
   return), and ends it. The test counts as failed, and another worker continues.
3. The watchdog ends a run in which no test begins or ends for SILENCE seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

SILENCE = 1800.0  # s; more than faulthandler_timeout
_LOOK_EVERY = 1.0  # s
_MAX_OF_A_LOG = 10_000  # characters


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("silence", "seconds without any event after which the run ends", default=SILENCE)


def pytest_configure(config: pytest.Config) -> None:
    # Python ignores SIGINT if its parent did (nohup, `&` in a script), and so do its children:
    # tests that interrupt a process would wait for it forever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Watchdog(float(config.getini("silence"))), "watchdog")


class Watchdog:
    """Watches the whole run. With xdist it runs in the controller."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._running: dict[str, float] = {}
        self._last = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        self._has_workers = session.config.getoption("numprocesses", None) is not None
        self._thread.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = self._last = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._last = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._last = time.monotonic()
        if report.when not in ("setup", "call", "teardown"):
            self._running.pop(report.nodeid, None)  # after a crash there is no logfinish
        if report.failed and self._has_workers:
            # print it in full now, because a run that is ended shows no summary
            self._terminal.write_line("")
            self._terminal.write_sep("_", f"FAILED {report.nodeid} ({report.when})")
            self._terminal.write_line(report.longreprtext)
            for title, text in report.sections:
                self._terminal.write_sep("-", title)
                self._terminal.write_line(text[-_MAX_OF_A_LOG:])

    def pytest_sessionfinish(self) -> None:
        self._last = time.monotonic()

    def pytest_unconfigure(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            silent = time.monotonic() - self._last
            if silent > self._silence:
                self._end_run(silent)

    def _end_run(self, silent: float) -> None:
        now = time.monotonic()
        lines = [f"no test has begun or ended for {silent:.0f} s: the run ends. Still running:"]
        lines += [f"  {nodeid}, for {now - at:.0f} s" for nodeid, at in self._running.items()]
        try:
            print("", *lines, sep="\n", file=sys.__stderr__, flush=True)
            for child in _children():
                with suppress(ProcessLookupError):  # it has exited meanwhile
                    os.kill(child, signal.SIGKILL)
        finally:
            os._exit(1)


def _children() -> list[int]:
    """The pids of the workers. Their children exit with them (see local.processes.spawn)."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found
