"""The jars of the embedded broker and of Spark's Kafka source; Maven fetches them once.

A jar set is a folder ``<cache>/jars/<name>``. It is filled under another name and then renamed. Its
stamp is a digest of the POM: a folder with another stamp is fetched again. Maven's own
configuration (``~/.m2/settings.xml``) names the repository.

The sums file of a set names each jar and its SHA-256, in the format of ``sha256sum`` and with the
paths of a Maven repository, so ``sha256sum -c`` checks ``~/.m2/repository``, too. The jars are
compared with it after the download and before each use. After a change of a version, ``python -m
local.kafka.jars --pin`` writes the sums files.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from local.errors import LocalError, friendly, tail
from model.machine.cache import cache_folder

STAMP = ".complete"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Maven coordinates ``group:artifact:version``, with or without their dependencies.

    ``sums``: the file with the SHA-256 of each jar.
    """

    name: str
    coordinates: tuple[str, ...]
    transitive: bool
    sums: Path

    def pinned(self) -> dict[str, str]:
        """File name ► SHA-256 in hex."""
        lines = (line.split(maxsplit=1) for line in self.sums.read_text().splitlines())
        return {path.rpartition("/")[2]: digest for digest, path in lines}

    def pom(self) -> str:
        """The POM with which Maven resolves exactly this set."""
        exclusions = (
            ""
            if self.transitive
            else "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>"
            "</exclusion></exclusions>"
        )
        dependencies = []
        for coordinate in self.coordinates:
            group, artifact, version = coordinate.split(":")
            dependencies.append(
                f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
                f"<version>{version}</version>{exclusions}</dependency>"
            )
        return "\n".join(
            [
                '<project xmlns="http://maven.apache.org/POM/4.0.0">',
                "  <modelVersion>4.0.0</modelVersion>",
                f"  <groupId>queryable-topics</groupId><artifactId>{self.name}-jars</artifactId>",
                "  <version>1</version><packaging>pom</packaging>",
                "  <dependencies>",
                *dependencies,
                "  </dependencies>",
                "</project>",
                "",
            ]
        )


# kafka_2.13:4.4.0 cannot be resolved: its POM names an artifact that does not exist.
# Without slf4j-simple the broker does not log, not even errors that end it.
KAFKA = JarSet(
    "kafka",
    ("org.apache.kafka:kafka_2.13:4.1.0", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
    sums=Path(__file__).with_name("kafka-jars.sha256"),
)

# Only these four: pyspark has their dependencies, some in other versions.
SPARK = JarSet(
    "spark",
    (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    transitive=False,
    sums=Path(__file__).with_name("spark-jars.sha256"),
)

# For tests and the benchmark, in addition to the jars of the broker.
STREAMS = JarSet(
    "streams",
    ("org.apache.kafka:kafka-streams:4.1.0", "org.rocksdb:rocksdbjni:9.7.3"),
    transitive=False,
    sums=Path(__file__).with_name("streams-jars.sha256"),
)


def kafka_jars() -> Path:
    """The folder with the broker's jars; a class path is ``<folder>/*``."""
    return resolve(KAFKA, cache_folder())


def streams_class_path() -> str:
    """The class path of a Kafka Streams application."""
    folders = (resolve(jar_set, cache_folder()) for jar_set in (KAFKA, STREAMS))
    return os.pathsep.join(f"{folder}/*" for folder in folders)


def spark_jars() -> list[Path]:
    """The jars for ``spark.jars``."""
    return sorted(resolve(SPARK, cache_folder()).glob("*.jar"))


def resolve(jar_set: JarSet, cache: Path) -> Path:
    """The folder of a jar set. Fetches the set first if it is incomplete or not as pinned.

    Raises ``LocalError`` if Maven is missing, fails or has other files than the pinned ones, or the
    cache is not writable.
    """
    home = cache / "jars"
    target = home / jar_set.name
    digest = hashlib.sha256(jar_set.pom().encode()).hexdigest()
    pinned = jar_set.pinned()
    if _is_complete(target, digest):
        if not (differences := _differences(target, pinned)):
            return target
        print(f"{target} is not as pinned and is fetched again: {differences}", file=sys.stderr)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / ".lock"):
            # another process may have fetched it
            if not _is_complete(target, digest) or _differences(target, pinned):
                _fetch(jar_set, target, digest, pinned)
    except OSError as error:
        raise LocalError(
            f"cannot write the jar cache {home}: {error.strerror or error}. "
            "Make it writable, or name another folder with QUERYABLE_CACHE."
        ) from error
    return target


def _is_complete(target: Path, digest: str) -> bool:
    try:
        return (target / STAMP).read_text() == digest
    except OSError:
        return False


def _differences(folder: Path, pinned: dict[str, str]) -> str:
    """The differences between the jars of a folder and the pinned ones, as text; empty if there are
    none.

    Additional jars are differences, too: Java's class path ``<folder>/*`` and Spark use all jars of
    the folder.
    """
    present = {path.name: path for path in folder.glob("*.[jJ][aA][rR]")}
    findings = [f"{name} is missing" for name in sorted(pinned.keys() - present.keys())]
    findings += [f"{name} does not belong there" for name in sorted(present.keys() - pinned.keys())]
    for name in sorted(present.keys() & pinned.keys()):
        if (digest := _sha256(present[name])) != pinned[name]:
            findings.append(f"{name} has SHA-256 {digest} instead of {pinned[name]}")
    return "; ".join(findings)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(jar_set: JarSet, target: Path, digest: str, pinned: dict[str, str]) -> None:
    for leftover in target.parent.glob(f".{jar_set.name}-*"):
        shutil.rmtree(leftover)
    work = Path(tempfile.mkdtemp(prefix=f".{jar_set.name}-", dir=target.parent))
    try:
        jars = work / "jars"
        jars.mkdir()
        pom = work / "pom.xml"
        pom.write_text(jar_set.pom())
        with Console(stderr=True).status(f"fetching the {jar_set.name} jars with Maven") as status:
            if not status.console.is_terminal:
                status.console.print(status.status)
            _run_maven(jar_set, pom, jars)
        if not any(jars.glob("*.jar")):
            raise LocalError(f"Maven ended without error but left no {jar_set.name} jar in {jars}.")
        if differences := _differences(jars, pinned):
            raise LocalError(
                f"Maven's {jar_set.name} jars differ from {jar_set.sums} and are not used: "
                f"{differences}. Delete the jar from Maven's local repository (~/.m2/repository) "
                "and try again. If that does not help, the repository that Maven uses has another "
                "file under this version."
            )
        (jars / STAMP).write_text(digest)
        if target.exists():
            target.rename(work / "old")
        jars.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def pin(jar_set: JarSet) -> None:
    """Writes the sums file of a set from the jars that Maven has now. Raises ``LocalError``."""
    with tempfile.TemporaryDirectory() as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(jar_set.pom())
        jars = Path(work) / "jars"
        _run_maven(jar_set, pom, jars, "-Dmdep.useRepositoryLayout=true")
        paths = sorted(jars.rglob("*.jar"))
        lines = [f"{_sha256(path)}  {path.relative_to(jars)}\n" for path in paths]
    jar_set.sums.write_text("".join(lines))


def _run_maven(jar_set: JarSet, pom: Path, output: Path, *options: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise LocalError(
            f"Maven (mvn) is needed to fetch the {jar_set.name} jars and is not on the PATH. "
            "Run `make setup`, or install the package maven."
        )
    done = subprocess.run(
        [
            maven,
            "--batch-mode",
            "--quiet",
            "--file",
            str(pom),
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={output}",
            *options,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(
            f"Maven could not fetch the {jar_set.name} jars (status {done.returncode}). Its last "
            f"lines:\n{tail(done.stdout)}\n"
            "Check the network and ~/.m2/settings.xml, then try again."
        )


@friendly
def main(
    new_sums: Annotated[
        bool, typer.Option("--pin", help="Write the SHA-256 of the jars that Maven has now.")
    ] = False,
) -> None:
    """Fetch the jars of the broker and of Spark, check their SHA-256, and print their folders."""
    cache = cache_folder()
    for jar_set in (KAFKA, SPARK):
        if new_sums:
            pin(jar_set)
        folder = resolve(jar_set, cache)
        print(f"{jar_set.name}: {len(list(folder.glob('*.jar')))} jars in {folder}")


if __name__ == "__main__":
    typer.run(main)
