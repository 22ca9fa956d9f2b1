"""Whether the job works: ``python -m spark.health FILE``, by what ``spark.run --health`` writes.

Status 0 where it does; 1, and what is wrong, where it has ended, a view has failed, or a view makes
no progress.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

SILENT = 15.0  # s; the file is written every second
STUCK = 300.0  # s; a query with nothing to do says so every second


def problem(document: Any, now: float, stuck_after: float = STUCK) -> str | None:
    """What is wrong, in words; None where nothing is. `now`: s since 1970."""
    try:
        age = now - float(document["at"])
        if not -SILENT <= age <= SILENT:
            return f"the job has said nothing for {age:.0f} s: it has ended, or hangs"
        for name, view in document["views"].items():
            if view["state"] in ("failed", "stopped"):
                return f"view {name} has {view['state']}: {view['error'] or 'it was told to'}"
            silent = view["silent_seconds"]
            if silent is not None and silent > stuck_after:
                return f"view {name} has made no progress for {silent:.0f} s"
    except (KeyError, TypeError, ValueError, AttributeError):
        return "this is no file of spark.run --health"
    return None


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m spark.health", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--stuck-after", type=float, default=STUCK, metavar="SECONDS")
    given = parser.parse_args(arguments)
    try:
        wrong = problem(json.loads(given.file.read_text()), time.time(), given.stuck_after)
    except OSError as error:
        wrong = f"{given.file}: {error.strerror}"
    except ValueError:
        wrong = f"{given.file} is no JSON"
    print(wrong or "the job works")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
