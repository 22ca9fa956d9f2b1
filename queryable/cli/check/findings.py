"""The findings of `check`: one line each, with what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

OK, WARNING, WRONG = "ok", "warning", "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """`about`: what was checked. `do`: what to do; empty if nothing."""

    status: str
    about: str
    says: str
    do: str = ""

    def row(self) -> dict[str, Any]:
        return {"status": self.status, "about": self.about, "says": self.says, "do": self.do}

    def line(self) -> str:
        to_do = f" ► {self.do}" if self.do else ""
        return f"{self.status:<8} {self.about}: {self.says}{to_do}"


def ok(about: str, says: str) -> Finding:
    return Finding(OK, about, says)


def warning(about: str, says: str, do: str) -> Finding:
    return Finding(WARNING, about, says, do)


def wrong(about: str, says: str, do: str) -> Finding:
    return Finding(WRONG, about, says, do)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether a finding is wrong; warnings do not count."""
    return any(each.status == WRONG for each in findings)
