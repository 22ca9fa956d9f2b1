import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from local.errors import LocalError
from local.kafka.jars import KAFKA, SPARK, STAMP, JarSet, pin, resolve

SUMS = f"{hashlib.sha256(b'jar').hexdigest()}  a/b/1/some.jar\n"


def jar_set(folder: Path, *coordinates: str) -> JarSet:
    sums = folder / "two.sha256"
    sums.write_text(SUMS)
    return JarSet("two", coordinates or ("a:b:1", "c:d:2"), transitive=False, sums=sums)


# A fake Maven: counts its calls, and creates a jar in the output folder.
MAVEN = """#!/bin/sh
echo call >> {calls}
for argument; do
    case $argument in
        -DoutputDirectory=*) folder="${{argument#*=}}" ;;
        -Dmdep.useRepositoryLayout=true) folder="$folder/a/b/1"; mkdir -p $folder ;;
    esac
done
printf {content} > $folder/some.jar
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

    def does(self, last_line: str, content: str = "jar") -> None:
        self.path.write_text(MAVEN.format(calls=self._calls, last_line=last_line, content=content))
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


def test_a_set_is_fetched_once(maven: FakeMaven, tmp_path: Path) -> None:
    two = jar_set(tmp_path)
    folder = resolve(two, tmp_path / "cache")
    assert [path.name for path in folder.glob("*.jar")] == ["some.jar"]
    assert resolve(two, tmp_path / "cache") == folder
    assert maven.calls == 1


def test_other_versions_replace_the_old_ones(maven: FakeMaven, tmp_path: Path) -> None:
    folder = resolve(jar_set(tmp_path), tmp_path)
    (folder / "old.jar").touch()
    assert resolve(jar_set(tmp_path, "a:b:2"), tmp_path) == folder
    assert [path.name for path in folder.glob("*.jar")] == ["some.jar"]
    assert maven.calls == 2


@pytest.mark.slow
def test_an_interrupted_fetch_leaves_no_incomplete_set(maven: FakeMaven, tmp_path: Path) -> None:
    maven.does("kill -9 $PPID; exit 1")
    two = jar_set(tmp_path, "a:b:1")
    script = (
        "import sys; from pathlib import Path; from local.kafka.jars import JarSet, resolve; "
        "path = Path(sys.argv[1]); "
        "resolve(JarSet('two', ('a:b:1',), transitive=False, sums=path / 'two.sha256'), path)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "jars" / "two").exists()
    maven.does("exit 0")
    folder = resolve(two, tmp_path)
    assert (folder / STAMP).exists()
    assert sorted(path.name for path in folder.parent.iterdir()) == [".lock", "two"]


def test_a_folder_without_the_stamp_is_fetched_again(maven: FakeMaven, tmp_path: Path) -> None:
    (tmp_path / "jars" / "two").mkdir(parents=True)
    (tmp_path / "jars" / "two" / "half.jar").touch()
    folder = resolve(jar_set(tmp_path), tmp_path)
    assert [path.name for path in folder.glob("*.jar")] == ["some.jar"]


def test_a_failure_of_maven_is_reported_with_its_last_lines(
    maven: FakeMaven, tmp_path: Path
) -> None:
    maven.does("echo '[ERROR] Unknown host'; exit 3")
    with pytest.raises(LocalError, match=r"(?s)two jars \(status 3\).*Unknown host.*try again"):
        resolve(jar_set(tmp_path), tmp_path)
    assert not (tmp_path / "jars" / "two").exists()


def test_a_missing_maven_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match=r"Maven \(mvn\) is needed .* `make setup`"):
        resolve(jar_set(tmp_path), tmp_path)


def test_a_cache_that_cannot_be_written_is_named(maven: FakeMaven, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match=r"file/jars: Not a directory.*QUERYABLE_CACHE"):
        resolve(jar_set(tmp_path), tmp_path / "file")
    assert maven.calls == 0


@pytest.mark.parametrize("change", ["changed", "added", "removed"])
def test_a_changed_cache_is_reported_and_fetched_again(
    change: str, maven: FakeMaven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = jar_set(tmp_path)
    folder = resolve(two, tmp_path)
    expected = {"changed": "some.jar has SHA-256 ", "added": "evil.JAR does not belong there"}
    if change == "changed":
        (folder / "some.jar").write_bytes(b"Jar")
    elif change == "added":
        (folder / "evil.JAR").touch()  # Java's class path takes it, too
    else:
        (folder / "some.jar").unlink()
    capsys.readouterr()
    assert resolve(two, tmp_path) == folder
    assert expected.get(change, "some.jar is missing") in capsys.readouterr().err
    assert [path.read_bytes() for path in folder.glob("*.[jJ]*")] == [b"jar"]
    assert maven.calls == 2


def test_another_jar_from_maven_is_an_error_and_never_used(
    maven: FakeMaven, tmp_path: Path
) -> None:
    maven.does("exit 0", content="Jar")
    with pytest.raises(LocalError, match=r"some.jar has SHA-256 .* instead of .*~/.m2/repository"):
        resolve(jar_set(tmp_path), tmp_path)
    assert not (tmp_path / "jars" / "two").exists()


def test_pinning_writes_the_sums_of_maven_s_jars(maven: FakeMaven, tmp_path: Path) -> None:
    two = jar_set(tmp_path)
    two.sums.write_text("")
    pin(two)
    assert two.sums.read_text() == SUMS


def test_every_jar_that_is_named_is_pinned() -> None:
    for each in (KAFKA, SPARK):
        names = {":".join(coordinate.split(":")[1:]) for coordinate in each.coordinates}
        assert {f"{name.replace(':', '-')}.jar" for name in names} <= each.pinned().keys()
        assert all(len(bytes.fromhex(digest)) == 32 for digest in each.pinned().values())


def test_spark_gets_exactly_four_jars_and_kafka_all_dependencies() -> None:
    assert SPARK.pom().count("<artifactId>*</artifactId>") == len(SPARK.coordinates) == 4
    assert "exclusion" not in KAFKA.pom()
