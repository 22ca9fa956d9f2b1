"""Runs attacks one after the other next to honest readers, and measures both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local.errors import LocalError
from local.waiting import stretch, wait_until
from tests.attacks.attack import VIEW, Attack
from tests.attacks.measuring import (
    MAX_RECOVERY,
    Result,
    Sample,
    between,
    errors,
    p99_bound,
    p99_ms,
    parse,
    recovered_after,
)
from tests.attacks.running_site import RunningSite
from tests.support.background import Background

_BASELINE = 0.7  # s
_TAIL = 0.6  # s that have to be normal after an attack
_GRACE = 30.0  # s for an attack to end after its time
_SAMPLES_ALIVE = 200


class HonestReaders:
    """The readers' process, and what they have seen."""

    def __init__(self, running: RunningSite) -> None:
        self.samples: list[Sample] = []
        self._process = _python("tests.attacks.honest")
        site = running.site
        self._give = {
            "proxy": site.proxy,
            "backend": site.backend,
            "view": VIEW,
            "keys": list(site.keys),
            "token": site.token,
        }
        self._thread = threading.Thread(target=self._read, name="honest")

    def __enter__(self) -> HonestReaders:
        self._thread.start()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(self._give))
        self._process.stdin.close()
        try:
            wait_until(lambda: len(self.samples) > _SAMPLES_ALIVE, 20, "the honest readers")
        except LocalError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.samples.append(parse(line))

    def since(self, moment: float) -> list[Sample]:
        """Requests that ended after it, for times of this run that are not long ago."""
        found = []
        for sample in reversed(self.samples):
            if sample.ended < moment - 10:  # threads print out of order
                break
            found.append(sample)
        return [sample for sample in found if sample.ended >= moment]


class Memory(Background):
    """The peak of the resident memory of all processes, MB, while it is entered."""

    _INTERVAL = 0.1  # s

    def __init__(self, pids: Callable[[], Sequence[int]]) -> None:
        super().__init__("memory")
        self._pids = pids
        self.first = self.peak = resident_mb(pids())

    def _work(self, number: int) -> None:
        while not self._stop.wait(self._INTERVAL):
            self.peak = max(self.peak, resident_mb(self._pids()))


def resident_mb(pids: Sequence[int]) -> float:
    pages = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue  # it has ended
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_attack(
    attack: Attack,
    running: RunningSite,
    honest: HonestReaders,
    times: float = 1.0,
    patience: float = 1.0,
    *,
    yields: bool = True,
) -> Result:
    """One attack of `times` its usual duration. Servers have `patience` times as long to close the
    connections that they must close. `yields`: the attacker has the lowest priority. On a busy
    machine, it would hardly run then."""
    began = time.monotonic()
    _wait(_BASELINE)
    before = between(honest.since(began), began, time.monotonic())
    baseline, rate = p99_ms(before), len(before) / _BASELINE
    attack_began = time.monotonic()
    with Memory(running.pids) as memory:
        failure, outcomes = _perform(attack, running, attack.seconds * times, patience, yields)
    end = time.monotonic()
    recovered = _wait_recovered(honest, end, rate, p99_bound(baseline))
    during = between(honest.since(attack_began), attack_began, end)
    after = [sample for sample in honest.since(end) if sample.sent >= end]
    failed = errors([*during, *after])
    result = Result(
        attack=attack.full_name,
        refused=not failure,
        honest_p99_ms=p99_ms(during),
        baseline_p99_ms=baseline,
        honest_errors=sum(failed.values()),
        peak_rss_mb=round(memory.peak, 1),
        recovered_s=recovered,
        growth_mb=round(memory.peak - memory.first, 1),
        outcomes=outcomes,
    )
    result.why = [failure] if failure else []
    result.why += [f"{count} × {error}" for error, count in failed.items()]
    for backend in running.backends:
        if not backend.is_running:
            raise LocalError(f"{attack.full_name} has ended backend {backend.id}.")
    return result


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def _wait_recovered(honest: HonestReaders, end: float, rate: float, bound_ms: float) -> float:
    """Seconds until all was normal again. Waits until then, and a little longer."""
    deadline = end + 4 * MAX_RECOVERY
    while True:
        _wait(0.25)
        now = time.monotonic()
        # the last ones may be under way
        recovered = recovered_after(honest.since(end), end, now - 0.1, rate, bound_ms)
        if now - end >= _TAIL + recovered or now > deadline:
            return recovered


def _perform(
    attack: Attack, running: RunningSite, seconds: float, patience: float, yields: bool
) -> tuple[str, dict[str, int]]:
    """What was not refused (or ""), and the outcomes."""
    given = {
        "attack": attack.full_name,
        "site": running.site.document(),
        "seconds": seconds,
        "patience": patience,
        "yields": yields,
    }
    process = _python("tests.attacks.perform", has_session=True)
    try:
        grace = _GRACE * stretch()
        output, _ = process.communicate(json.dumps(given), timeout=seconds + grace)
    except subprocess.TimeoutExpired:
        return f"the attack has not ended {grace:.0f} s after its time", {}
    finally:
        process.kill()  # a no-op if it has ended; Ctrl-C does not reach another session
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    if process.returncode:
        raise LocalError(f"{attack.full_name} failed with status {process.returncode}.")
    document: dict[str, Any] = json.loads(output)
    return document["failure"], document["outcomes"]


def _python(module: str, has_session: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=has_session,
    )


@contextmanager
def honest_readers(running: RunningSite) -> Iterator[HonestReaders]:
    with HonestReaders(running) as honest:
        yield honest
