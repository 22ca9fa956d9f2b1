"""What the honest readers saw before, during and after an attack. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

TIMES_BASELINE = 5.0
"""The p99 during an attack is at most this many times the p99 before it …"""
FLOOR_MS = 25.0
"""… or this, if that is more. On a machine with two processors, six processes of this test compete
for them; a scheduler's time slices alone take some 10 ms."""
MAX_GROWTH_MB = 640.0
"""Memory that an attack may add to that of nginx and three backends together. It follows from the
bounds in docs/security/clients.md."""
MAX_RECOVERY = 2.0  # s
_WINDOW = 0.25  # s

POINT = "point"


class Sample(NamedTuple):
    """A request of an honest reader; times in s."""

    kind: str
    sent: float
    seconds: float
    error: str

    @property
    def ended(self) -> float:
        return self.sent + self.seconds


def parse(line: str) -> Sample:
    """A line that `honest` prints."""
    kind, sent, seconds, error = line.split()
    return Sample(kind, float(sent), float(seconds), "" if error == "-" else error)


@dataclass
class Result:
    """A line of attacks.json; `why` and `growth_mb` are for the table."""

    attack: str
    refused: bool
    honest_p99_ms: float
    baseline_p99_ms: float
    honest_errors: int
    peak_rss_mb: float
    recovered_s: float
    growth_mb: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)

    @property
    def missed(self) -> list[str]:
        """The targets that were missed."""
        missed = [] if self.refused else ["not refused"]
        if self.honest_errors:
            missed.append(f"{self.honest_errors} honest errors")
        bound = p99_bound(self.baseline_p99_ms)
        if self.honest_p99_ms > bound:
            missed.append(f"honest p99 {self.honest_p99_ms:.0f} ms > {bound:.0f}")
        if self.growth_mb > MAX_GROWTH_MB:
            missed.append(f"memory grew by {self.growth_mb:.0f} MB")
        if self.recovered_s > MAX_RECOVERY:
            missed.append(f"recovered after {self.recovered_s:.1f} s")
        return missed

    def document(self) -> dict[str, Any]:
        """The fields of attacks.json."""
        every = asdict(self)
        return {name: every[name] for name in every if name not in ("growth_mb", "outcomes", "why")}


def p99_bound(baseline_ms: float) -> float:
    return max(TIMES_BASELINE * baseline_ms, FLOOR_MS)


def p99_ms(samples: Iterable[Sample]) -> float:
    """The 99th percentile of the reads of keys that were answered; 0 without any."""
    times = sorted(sample.seconds for sample in samples if sample.kind == POINT)
    return round(1000 * times[(len(times) * 99 - 1) // 100], 1) if times else 0.0


def between(samples: Iterable[Sample], begin: float, end: float) -> list[Sample]:
    """Requests that were in progress at some time of the span."""
    return [sample for sample in samples if sample.ended >= begin and sample.sent < end]


def errors(samples: Iterable[Sample]) -> dict[str, int]:
    found: dict[str, int] = {}
    for sample in samples:
        if sample.error:
            found[sample.error] = found.get(sample.error, 0) + 1
    return found


def recovered_after(
    samples: Sequence[Sample], begin: float, end: float, rate: float, bound_ms: float
) -> float:
    """Seconds from `begin` until the last window that is not normal; 0 if all are. `samples`: until
    `end`; `rate`: of requests per second that is normal.

    A window is not normal if a request that was sent in it failed, if its p99 is above the bound,
    or if it has less than a third of the normal number of requests: then readers wait for answers.
    """
    last = 0.0
    windows: dict[int, list[Sample]] = {n: [] for n in range(int((end - begin) / _WINDOW))}
    for sample in samples:
        number = int((sample.sent - begin) / _WINDOW)
        if number in windows:
            windows[number].append(sample)
    for number, of_window in windows.items():
        slow = [s for s in of_window if s.kind == POINT and 1000 * s.seconds > bound_ms]
        # one in a hundred may be slower; a window with a few requests may have one such
        is_slow = len(slow) > max(1, len(of_window) // 100)
        if errors(of_window) or is_slow or len(of_window) < rate * _WINDOW / 3:
            last = max(last, (number + 1) * _WINDOW)
    return last
