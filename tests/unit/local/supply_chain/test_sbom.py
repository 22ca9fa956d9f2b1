import subprocess
import sys
from pathlib import Path

import pytest

from local.kafka.jars import KAFKA, SPARK, STREAMS
from local.sbom import SUMS, jar_components, with_components
from local.settings import REPOSITORY

A, B = "0a" * 32, "0b" * 32


def test_a_jar_is_a_component_with_its_coordinates_and_hash(tmp_path: Path) -> None:
    file = tmp_path / "sums"
    file.write_text(f"{A}  org/apache/kafka/kafka_2.13/4.1.0/kafka_2.13-4.1.0.jar\n")
    purl = "pkg:maven/org.apache.kafka/kafka_2.13@4.1.0?type=jar"
    assert jar_components([file, file]) == [
        {
            "type": "library",
            "bom-ref": purl,
            "group": "org.apache.kafka",
            "name": "kafka_2.13",
            "version": "4.1.0",
            "purl": purl,
            "hashes": [{"alg": "SHA-256", "content": A}],
        }
    ]


def test_two_hashes_of_one_jar_are_an_error(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    for file, digest in zip(files, (A, B), strict=True):
        file.write_text(f"{digest}  a/b/1/b-1.jar\n")
    with pytest.raises(ValueError, match=r"two: another SHA-256 of a/b/1/b-1.jar"):
        jar_components(files)


def test_all_jars_are_listed() -> None:
    components = jar_components(SUMS)
    listed = {f"{each['name']}-{each['version']}.jar" for each in components}
    pinned = (each.pinned() for each in (KAFKA, SPARK, STREAMS))
    assert listed == set().union(*pinned)


def test_the_project_depends_on_what_is_added() -> None:
    bom = {
        "metadata": {"component": {"bom-ref": "root"}},
        "components": [{"bom-ref": "flask"}],
        "dependencies": [{"ref": "root", "dependsOn": ["flask"]}, {"ref": "flask"}],
    }
    whole = with_components(bom, [{"bom-ref": "a jar"}])
    assert whole["components"] == [{"bom-ref": "flask"}, {"bom-ref": "a jar"}]
    assert whole["dependencies"] == [
        {"ref": "root", "dependsOn": ["a jar", "flask"]},
        {"ref": "flask"},
        {"ref": "a jar"},
    ]


def test_it_runs_without_the_packages_of_the_project() -> None:
    """In the environment of the tools nothing of pyproject.toml is installed."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(REPOSITORY / "local" / "sbom.py"), "unused"],
        input="{",  # not JSON
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'cyclonedx'" in done.stderr
