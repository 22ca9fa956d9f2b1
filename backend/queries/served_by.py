"""`Served-By`: the instances that read an answer, each with its role.

    Served-By: b1; active, b2; active, b2; standby

A list (RFC 9110, 5.6.1) of `instance; role`. The instance that got the request comes first, if it
has read anything itself; then the standbys; then the others. After `MAX_NAMED` elements, `+n` is
the number of instances that are not named. An element has no role if the instance has an older
version, which does not send its role, or a newer one with a role that is unknown here.
"""

from __future__ import annotations

from collections.abc import Iterable

from backend.wire.answer import Header
from model.topology import ACTIVE, ROLES

MAX_NAMED = 16

_NAME = b"served-by"


class ServedBy:
    """Collects the instances that read for one answer, and writes the header."""

    def __init__(self) -> None:
        self._found: set[tuple[str, str]] = set()

    def add(self, instance: str, roles: Iterable[str]) -> None:
        """Add an instance with its roles, without roles that only a newer version knows."""
        self._found.update((instance, role if role in ROLES else "") for role in roles)

    def headers(self, me: str) -> list[Header]:
        """The header; none if no instance has read anything. `me`: the instance that was asked."""
        if not self._found:
            return []
        order = sorted(self._found, key=lambda r: (r[0] != me, r[1] == ACTIVE, r))
        named = [f"{id_}; {role}" if role else id_ for id_, role in order[:MAX_NAMED]]
        if len(order) > MAX_NAMED:
            named.append(f"+{len(order) - MAX_NAMED}")
        return [(_NAME, ", ".join(named).encode())]


def roles_said(headers: Iterable[Header]) -> tuple[str, ...]:
    """The roles in the answer of another instance; an older version sends none."""
    value = next((value for name, value in headers if name == _NAME), b"").decode("latin-1")
    return tuple(part.partition(";")[2].strip() for part in value.split(","))
