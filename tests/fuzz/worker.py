"""Runs one target with Atheris, which measures coverage and so finds its way into a decoder.

    python -m tests.fuzz.worker TARGET CORPUS SECONDS SEED

It ends with 0 after the time, or with another code at the first failure; the input is then in the
corpus' parent folder as `TARGET-crash-…`, `TARGET-timeout-…` or `TARGET-oom-…`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["backend", "model"]):
    from tests.fuzz.targets import TARGETS, seeds

INPUT_TIMEOUT = 5  # s; a longer input is a failure
_MAX_INPUT = 4096  # bytes
_MEMORY_MB = 1024


def main(target: str, corpus: str, seconds: str, seed: str) -> None:
    folder = Path(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(target)):
        (folder / f"seed-{number}").write_bytes(data)
    atheris.Setup(
        [
            "fuzz",
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            f"-timeout={INPUT_TIMEOUT}",
            f"-max_len={_MAX_INPUT}",
            f"-rss_limit_mb={_MEMORY_MB}",
            f"-artifact_prefix={folder.parent}/{target}-",
            "-print_final_stats=1",
            "-verbosity=0",
            str(folder),
        ],
        TARGETS[target],
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
