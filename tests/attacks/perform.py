"""Runs one attack: `python -m tests.attacks.perform`, with a JSON document on standard input.

It is a process of its own, usually with the lowest priority, because real attackers do not use the
processors of the machine that they attack. Prints a JSON document: refused, why not, and outcomes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from tests.attacks.attack import Attempt, Site
from tests.attacks.families import ATTACKS


def _yield_to_others() -> None:
    """The lowest priority. Linux shares processors between sessions first (autogroups, see
    sched(7)), and `nice` only counts within one: this process has a session of its own, whose
    group gets the lowest priority, too."""
    os.nice(19)
    with suppress(OSError):  # no autogroups here
        Path("/proc/self/autogroup").write_text("19")


def main() -> None:
    given = json.load(sys.stdin)
    if given["yields"]:
        _yield_to_others()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attack = ATTACKS[given["attack"]]
    attempt = Attempt(Site(**given["site"]), attack.target, given["seconds"], given["patience"])
    asyncio.run(attack.perform(attempt))
    json.dump({"failure": attempt.failure, "outcomes": attempt.outcomes}, sys.stdout)


if __name__ == "__main__":
    main()
