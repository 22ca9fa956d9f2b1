"""An authenticated client and its scopes.

    read:{view}, read:*        read a view, or all views
    append:{topic}, append:*   append records to a topic, or to all topics that allow it
    metrics                    /metrics
    admin                      actions that change the deployment

Scopes that this service does not know are ignored: a token may be for several services.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SCOPE = re.compile(r"(read|append):(\*|[A-Za-z0-9._-]{1,249})|metrics|admin", re.ASCII)


@dataclass(frozen=True, slots=True)
class Identity:
    """`subject`: the name of the client; `expires_at`: Unix time in s, from which it is refused."""

    subject: str
    scopes: frozenset[str]
    expires_at: float

    def may_read(self, view: str) -> bool:
        return not self.scopes.isdisjoint(scopes_to_read(view))

    def may_append(self, topic: str) -> bool:
        return f"append:{topic}" in self.scopes or "append:*" in self.scopes


def scopes_to_read(view: str) -> tuple[str, str]:
    """The scopes that allow reading this view. A client needs one of them."""
    return f"read:{view}", "read:*"


def known_scopes(given: Iterable[str]) -> frozenset[str]:
    """The scopes that this service knows."""
    return frozenset(scope for scope in given if _SCOPE.fullmatch(scope))
