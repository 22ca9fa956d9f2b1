"""`make fuzz`: fuzz tests for a time. Writes .run/fuzz.json; ends with 1 if something failed.

1. URIs: a million are read by the proxy's Lua and by the backends' Python.
2. Pipelined mixes of requests for every route, at a real nginx and a backend.
3. Decoders (`targets.py`), for the rest of the time, as many at once as there are processors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from local.progress import bar
from tests.fuzz.targets import TARGETS
from tests.fuzz.uris import compare

URIS = 1_000_000
REQUESTS = 30_000  # of each of four targets
_SHORTEST = 10  # s of each decoder
_EXECUTED = re.compile(r"stat::number_of_executed_units: *(\d+)")


@dataclass
class Report:
    """What .run/fuzz.json has. `failed`: what to do about each failure."""

    seed: int
    minutes: float
    uris: dict[str, int] = field(default_factory=dict)
    pipelined_requests: int = 0
    inputs: dict[str, int] = field(default_factory=dict)  # by decoder
    failed: list[str] = field(default_factory=list)


def fuzz_uris(report: Report) -> None:
    with bar("URIs", URIS) as update:
        outcome = compare(URIS, report.seed, update)
    report.uris = {"compared": outcome.compared, "routed": outcome.routed}
    report.failed += [
        f"Lua and Python read the URI {uri!r} differently: add it to tests/vectors/uri_vectors.py."
        for uri in outcome.different
    ]


def fuzz_pipelines(report: Report) -> None:
    print(f"pipelined requests: {REQUESTS} each, with and without tokens", file=sys.stderr)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "tests/system/fuzz/pipelining/test_pipelining.py"],
        env={**os.environ, "FUZZ_REQUESTS": str(REQUESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == 0:
        report.pipelined_requests = 4 * REQUESTS  # through nginx and at a backend
    else:
        report.failed.append(f"pipelined requests:\n{run.stdout[-4000:]}")


def fuzz_decoders(report: Report, folder: Path, seconds: float) -> None:
    processors = os.cpu_count() or 1
    each = max(_SHORTEST, int(seconds * processors / len(TARGETS)))
    with bar("decoders", len(TARGETS)) as update, ThreadPoolExecutor(processors) as pool:
        runs = pool.map(lambda name: _fuzz(name, folder, each, report.seed), TARGETS)
        for done, (name, inputs, failure) in enumerate(runs, 1):
            report.inputs[name] = inputs
            if failure is not None:
                report.failed.append(failure)
            update(done)


def _fuzz(name: str, folder: Path, seconds: int, seed: int) -> tuple[str, int, str | None]:
    """The decoder, how many inputs it got, and its failure."""
    corpus = folder / "corpus" / name
    log = folder / f"{name}.log"
    before = set(corpus.parent.glob(f"{name}-*"))
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.worker",
        name,
        str(corpus),
        str(seconds),
        str(seed),
    ]
    with log.open("wb") as output:
        code = subprocess.run(
            command, stdout=output, stderr=output, check=False, timeout=seconds + 120
        ).returncode
    found = _EXECUTED.search(log.read_text(errors="replace"))
    inputs = int(found[1]) if found else 0
    if code == 0:
        return name, inputs, None
    crashes = sorted(set(corpus.parent.glob(f"{name}-*")) - before)
    where = f"copy {crashes[0]} to tests/fuzz/crashes/{name}/" if crashes else f"see {log}"
    return name, inputs, f"decoder {name} failed: {where}, mend it, and keep the file as a test."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="make fuzz")
    parser.add_argument("--minutes", type=float, default=10, help="for everything together")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    arguments = parser.parse_args()
    ends_at = time.monotonic() + 60 * arguments.minutes
    report = Report(arguments.seed, arguments.minutes)
    folder = Path(".run").absolute() / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    fuzz_uris(report)
    fuzz_pipelines(report)
    fuzz_decoders(report, folder, ends_at - time.monotonic())
    document: dict[str, Any] = asdict(report)
    (folder.parent / "fuzz.json").write_text(json.dumps(document, indent=2) + "\n")
    for failure in report.failed:
        print(failure, file=sys.stderr)
    print(
        f"seed {report.seed}: {report.uris['compared']} URIs, "
        f"{report.pipelined_requests} pipelined requests, "
        f"{sum(report.inputs.values())} inputs of {len(TARGETS)} decoders; "
        f"{len(report.failed)} failed. See .run/fuzz.json.",
        file=sys.stderr,
    )
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
