"""All attacks, one module per family. Each module has a list `ATTACKS`."""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.attacks.families import (
    connections,
    documents,
    expensive,
    internal,
    oversize,
    readers,
    smuggling,
    tokens,
)

_FAMILIES = (connections, readers, oversize, expensive, documents, smuggling, internal, tokens)

ATTACKS: dict[str, Attack] = {
    attack.full_name: attack for family in _FAMILIES for attack in family.ATTACKS
}
