"""Whether the backends and nginx of a stack are ready, and what they still wait for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from local import http
from local.settings import StackSettings

REPORT_EVERY = 5.0
"""Seconds between two messages about what the backends wait for."""


class Readiness:
    """``report`` gets a line every ``REPORT_EVERY`` s while a backend is not ready."""

    def __init__(self, settings: StackSettings, report: Callable[[str], None]) -> None:
        self._backends = settings.backend_urls
        self._proxy = None if settings.without_nginx else settings.url
        self._report = report
        self._next = time.monotonic() + REPORT_EVERY

    def check(self) -> bool:
        """Asks all of them; true if all are ready."""
        answers = [http.get(f"{url}/health/ready", timeout=2.0) for url in self._backends]
        if all(answer.status == 200 for answer in answers) and self._proxy_is_ready():
            return True
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + REPORT_EVERY
            if text := waiting_text([answer.body for answer in answers if answer.status == 503]):
                self._report(text)
        return False

    def _proxy_is_ready(self) -> bool:
        if self._proxy is None:
            return True
        return http.get(f"{self._proxy}/health/proxy", timeout=2.0).status == 200


def waiting_text(documents: list[bytes]) -> str:
    """What backends wait for, from their ``/health/ready``; empty if they have no partitions. The
    first line counts records, and further lines say why a partition does not read on, and which
    topics are missing that were there."""
    left: dict[tuple[str, int], int] = {}
    reasons: dict[tuple[str, str], set[int]] = {}
    gone: set[tuple[str, str]] = set()
    for document in map(json.loads, documents):
        gone |= {(v["view"], v["topic"]) for v in document["without_partitions"]
                 if v["had_partitions"]}  # fmt: skip
        for partition in document["waiting"]:
            view, number = partition["view"], partition["partition"]
            # a partition that is being opened has no position yet
            records = (partition.get("goal") or 0) - (partition.get("position") or 0)
            # replicas of a partition read the same records
            left[view, number] = max(left.get((view, number), 0), records)
            if reason := partition.get("waiting_for"):
                reasons.setdefault((view, reason), set()).add(number)
    lines = []
    views: dict[str, int] = {}
    for (view, _), records in sorted(left.items()):
        views[view] = views.get(view, 0) + records
    if views:
        listed = ", ".join(f"{view}: {records:,}" for view, records in views.items())
        lines.append(f"catching up; records left to read: {listed}")
    for (view, reason), partitions in sorted(reasons.items()):
        numbers = ", ".join(map(str, sorted(partitions)))
        lines.append(f"view {view}, partitions {numbers}: the next record waits: {reason}")
    lines += [
        f"view {view}: its topic {topic} had partitions and has none now: it was deleted, or this "
        "user may no longer describe it. Create the topic, or remove the view"
        for view, topic in sorted(gone)
    ]
    return "\n".join(lines)
