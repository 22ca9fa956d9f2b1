import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from local.errors import LocalError
from local.kafka.jars import KAFKA, SPARK, STAMP, JarSet, resolve

TWO = JarSet("two", ("a:b:1", "c:d:2"), transitive=False)

# A fake Maven: counts its calls, and creates a jar in the output folder.
MAVEN = """#!/bin/sh
echo call >> {calls}
for argument; do
    case $argument in -DoutputDirectory=*) : > "${{argument#*=}}/some.jar" ;; esac
done
{last_line}
"""


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "FakeMaven":
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    fake = FakeMaven(folder / "mvn", tmp_path / "calls")
    fake.does("exit 0")
    return fake


class FakeMaven:
    def __init__(self, path: Path, calls: Path) -> None:
        self.path = path
        self._calls = calls

    def does(self, last_line: str) -> None:
        self.path.write_text(MAVEN.format(calls=self._calls, last_line=last_line))
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


def test_a_set_is_fetched_once(maven: FakeMaven, tmp_path: Path) -> None:
    folder = resolve(TWO, tmp_path / "cache")
    assert [path.name for path in folder.glob("*.jar")] == ["some.jar"]
    assert resolve(TWO, tmp_path / "cache") == folder
    assert maven.calls == 1


def test_other_versions_replace_the_old_ones(maven: FakeMaven, tmp_path: Path) -> None:
    folder = resolve(TWO, tmp_path)
    (folder / "old.jar").touch()
    assert resolve(JarSet("two", ("a:b:2",), transitive=False), tmp_path) == folder
    assert [path.name for path in folder.glob("*.jar")] == ["some.jar"]
    assert maven.calls == 2


def test_an_interrupted_fetch_leaves_no_incomplete_set(maven: FakeMaven, tmp_path: Path) -> None:
    maven.does("kill -9 $PPID; exit 1")
    script = (
        "import sys; from pathlib import Path; from local.kafka.jars import JarSet, resolve; "
        f"resolve({TWO!r}, Path(sys.argv[1]))"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "jars" / "two").exists()
    maven.does("exit 0")
    folder = resolve(TWO, tmp_path)
    assert (folder / STAMP).exists()
    assert sorted(path.name for path in folder.parent.iterdir()) == [".lock", "two"]


def test_a_folder_without_the_stamp_is_fetched_again(maven: FakeMaven, tmp_path: Path) -> None:
    (tmp_path / "jars" / "two").mkdir(parents=True)
    (tmp_path / "jars" / "two" / "half.jar").touch()
    folder = resolve(TWO, tmp_path)
    assert [path.name for path in folder.glob("*.jar")] == ["some.jar"]


def test_a_failure_of_maven_is_reported_with_its_last_lines(
    maven: FakeMaven, tmp_path: Path
) -> None:
    maven.does("echo '[ERROR] Unknown host'; exit 3")
    with pytest.raises(LocalError, match=r"(?s)two jars \(status 3\).*Unknown host.*try again"):
        resolve(TWO, tmp_path)
    assert not (tmp_path / "jars" / "two").exists()


def test_a_missing_maven_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match=r"Maven \(mvn\) is needed .* `make setup`"):
        resolve(TWO, tmp_path)


def test_a_cache_that_cannot_be_written_is_named(maven: FakeMaven, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match=r"file/jars: Not a directory.*QUERYABLE_CACHE"):
        resolve(TWO, tmp_path / "file")
    assert maven.calls == 0


def test_spark_gets_exactly_four_jars_and_kafka_all_dependencies() -> None:
    assert SPARK.pom().count("<artifactId>*</artifactId>") == len(SPARK.coordinates) == 4
    assert "exclusion" not in KAFKA.pom()
