"""A clock for the rule by which an instance asks others."""

from __future__ import annotations

import pytest

from backend.queries import retry as asking


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes only while a question pauses."""
    now = [100.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    class Sleeper:
        pass

    Sleeper.sleep = staticmethod(sleep)  # type: ignore[attr-defined]
    monkeypatch.setattr(asking, "time", Clock)
    monkeypatch.setattr(asking, "asyncio", Sleeper)
    return now
