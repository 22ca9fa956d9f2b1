"""The findings of `check`: one line each, with the action to take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

OK, WARNING, WRONG = "ok", "warning", "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject`: what was checked. `action`: what the user should do; empty for nothing."""

    status: str
    subject: str
    message: str
    action: str = ""

    def row(self) -> dict[str, Any]:
        """The JSON of `check --json`."""
        return {
            "status": self.status,
            "about": self.subject,
            "says": self.message,
            "do": self.action,
        }

    def line(self) -> str:
        action = f" ► {self.action}" if self.action else ""
        return f"{self.status:<8} {self.subject}: {self.message}{action}"


def counted(number: int, noun: str) -> str:
    """`1 view`, `2 views`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ok(subject: str, message: str) -> Finding:
    return Finding(OK, subject, message)


def warning(subject: str, message: str, action: str) -> Finding:
    return Finding(WARNING, subject, message, action)


def wrong(subject: str, message: str, action: str) -> Finding:
    return Finding(WRONG, subject, message, action)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether a finding is wrong; warnings do not count."""
    return any(finding.status == WRONG for finding in findings)
