"""Runs one attack: `python -m tests.attacks.perform`, with a JSON document on standard input.

It is a process of its own with the lowest priority, because real attackers do not use the
processors of the machine that they attack. Prints a JSON document: refused, why not, and outcomes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys

from tests.attacks.attack import Attempt, Site
from tests.attacks.families import ATTACKS


def main() -> None:
    os.nice(19)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    given = json.load(sys.stdin)
    attack = ATTACKS[given["attack"]]
    attempt = Attempt(Site(**given["site"]), attack.target, given["seconds"])
    asyncio.run(attack.perform(attempt))
    json.dump({"failure": attempt.failure, "outcomes": attempt.outcomes}, sys.stdout)


if __name__ == "__main__":
    main()
