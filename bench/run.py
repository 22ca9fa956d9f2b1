"""A run: measures group after group, and keeps the report after each measurement.

A group that fails is recorded, and the others are measured. The run ends immediately only if there
is no broker, or after an interruption.
"""

from __future__ import annotations

import os
import resource
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bench.plan import Plan
from bench.proc import busy_seconds
from bench.report import NOT_MEASURED, Report, Row
from bench.stack import Stack
from bench.subject import Subject, measured
from local.errors import LocalError
from local.progress import console

Group = Callable[[Stack, Plan], Iterator[Sequence[Subject]]]
"""A function of `bench.rows`."""


def run(
    report: Report,
    groups: Mapping[str, Group],
    plan: Plan,
    start: Callable[[], AbstractContextManager[Stack]],
    path: Path,
) -> None:
    """Measures the groups, adds their rows to the report, and writes the report to `path`. Also
    returns if groups have failed (`Report.problems`). Raises LocalError without a broker."""
    report.unfinished = dict.fromkeys(groups, NOT_MEASURED)
    with start() as stack:
        keep(path)
        other_processes = _OtherProcesses(stack)
        for name, group in groups.items():
            try:
                with stack.group():
                    for rows in measured(name, group(stack, plan), plan):
                        # a small run cannot show whether a target is met
                        report.put(name, rows if plan.is_full else map(Row.without_targets, rows))
                        other_processes.count(report)
                        report.write(path)
                del report.unfinished[name]
            except KeyboardInterrupt:
                report.unfinished[name] = "interrupted"
                raise
            except Exception as error:
                if not isinstance(error, LocalError):
                    traceback.print_exc()
                text = str(error) if isinstance(error, LocalError) else repr(error)
                report.unfinished[name] = text
                console.print(f"{name} failed: {text}", style="red", markup=False)
                stack.check_broker()
            finally:
                report.write(path)
    other_processes.count(report)
    report.write(path)


def keep(path: Path) -> None:
    """Renames the results of the previous run: the new name has the time when it ended."""
    if path.exists():
        ended = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(path.stat().st_mtime))
        os.replace(path, path.with_stem(f"{path.stem}-{ended}"))


class _OtherProcesses:
    """The share of the machine's CPU that other processes have used since the servers started."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._began, self._foreign = time.monotonic(), self._foreign_seconds()

    def _foreign_seconds(self) -> float:
        """CPU time of all other processes since the machine has started."""
        groups = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        usages = [resource.getrusage(group) for group in groups]
        ended = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        return busy_seconds() - ended - self._stack.cpu_seconds()

    def count(self, report: Report) -> None:
        seconds = time.monotonic() - self._began
        foreign = max(0.0, self._foreign_seconds() - self._foreign)
        report.machine["others"] = round(foreign / seconds / report.machine["cores"], 3)
        report.machine["seconds"] = round(seconds, 1)
