"""The Python of Spark's workers, started as Spark does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from spark.processes.worker_python import use_this_python

_LIB = Path(pyspark.__file__).parent / "python" / "lib"


def test_workers_import_the_installed_packages(tmp_path: Path) -> None:
    """With the PYTHONPATH that Spark gives to them, and a folder of the user's with a blank."""
    folder = tmp_path / "with blank"
    folder.mkdir()
    (folder / "of_user.py").write_text("x = 1\n")
    archives = [str(_LIB / "pyspark.zip"), *map(str, _LIB.glob("py4j-*.zip"))]
    assert len(archives) == 2
    environment = {"PYTHONPATH": os.pathsep.join([*archives, str(folder)])}
    use_this_python(environment, starts_java=True)
    program = environment["PYSPARK_PYTHON"]
    arguments = ["-c", "import pyspark, py4j, of_user, sys; print(pyspark.__file__, sys.argv[1])"]
    printed = subprocess.run(
        [program, *arguments, "an argument"], env=environment, check=True, capture_output=True,
        text=True, timeout=60,
    ).stdout  # fmt: skip
    assert printed.strip() == f"{pyspark.__file__} an argument"
