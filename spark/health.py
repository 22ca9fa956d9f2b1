"""Checks the file that ``spark.run --health`` writes: ``python -m spark.health FILE``.

Status 0: the job works. Status 1, with a reason: the job has ended, a view has failed, or a view
makes no progress. With ``--liveness``, views that have failed do not count: the other views run on,
and another start of the job would stop them without helping it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

MAX_AGE_S = 15.0  # the job writes the file every second
MAX_SILENCE_S = 300.0  # after the next report was due: a second or a trigger after the last one


def problem(
    document: Any, now: float, stuck_after: float = MAX_SILENCE_S, liveness: bool = False
) -> str | None:
    """The first problem of the job, or None. ``document``: the file's JSON; ``now``: s since 1970.
    ``liveness``: whether to count only problems that another start of the job may solve."""
    try:
        age = now - float(document["at"])
        if not -MAX_AGE_S <= age <= MAX_AGE_S:
            return f"the job has written nothing for {age:.0f} s: it has ended or hangs"
        for name, view in document["views"].items():
            if view["state"] in ("failed", "stopped"):
                if liveness:
                    continue
                reason = view["error"] or "the job received a signal"
                return f"view {name} has {view['state']}: {reason}"
            silent = view["silent_seconds"]
            if silent is not None and silent > stuck_after:
                return f"view {name} has made no progress for {silent:.0f} s"
    except (KeyError, TypeError, ValueError, AttributeError):
        return "the file was not written by spark.run --health"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m spark.health", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="the file of spark.run --health")
    parser.add_argument(
        "--stuck-after",
        type=float,
        default=MAX_SILENCE_S,
        metavar="SECONDS",
        help="how long a view may make no progress (default: %(default)g)",
    )
    parser.add_argument(
        "--liveness",
        action="store_true",
        help="ignore views that have failed: for a probe that restarts the job",
    )
    options = parser.parse_args(arguments)
    try:
        document = json.loads(options.file.read_text())
        message = problem(document, time.time(), options.stuck_after, options.liveness)
    except OSError as error:
        message = f"{options.file}: {error.strerror}"
    except ValueError:
        message = f"{options.file} is not JSON"
    print(message or "the job works")
    return 1 if message else 0


if __name__ == "__main__":
    sys.exit(main())
