"""The lock files hold what pyproject.toml requires: each package with a version and its hashes."""

import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from local.settings import REPOSITORY

FOLDER = REPOSITORY / "requirements"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
EXTRAS = {
    "dev": ["dev"],
    "docs": ["docs"],
    "fuzz": ["fuzz"],
    "server": ["server"],
    "spark": ["server", "spark", "local"],
}
BUILT = ("build.lock", "tools.lock")  # from files of their own

PLATFORMS = [
    {
        "python_version": version,
        "python_full_version": f"{version}.9",
        "platform_machine": machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    for version, machine in itertools.product(
        ("3.11", "3.12", "3.13", "3.14"), ("x86_64", "aarch64")
    )
]


class Locked(NamedTuple):
    requirement: Requirement
    version: Version
    hashes: list[str]


def locked(path: Path) -> list[Locked]:
    """The entries of a lock file. Any line of another form is a failure."""
    found = []
    text = re.sub(r" \\\n", " ", path.read_text())
    for line in text.splitlines():
        if line.strip().startswith("#"):
            continue
        entry, *hashes = line.split(" --hash=")
        requirement = Requirement(entry)
        [specifier] = requirement.specifier
        assert specifier.operator == "==", line
        found.append(Locked(requirement, Version(specifier.version), hashes))
    return found


def versions(entries: Iterable[Locked], platform: dict[str, str]) -> dict[str, Version]:
    """Name ► version, of the entries that a platform installs."""
    return {
        canonicalize_name(entry.requirement.name): entry.version
        for entry in entries
        if entry.requirement.marker is None or entry.requirement.marker.evaluate(platform)
    }


def required(extras: list[str]) -> Iterator[Requirement]:
    """The direct requirements of the project with these extras."""
    optional = PROJECT["project"]["optional-dependencies"]
    lines = PROJECT["project"]["dependencies"] + [
        line for each in extras for line in optional[each]
    ]
    for requirement in map(Requirement, lines):
        if requirement.name == PROJECT["project"]["name"]:
            yield from required(sorted(requirement.extras))
        else:
            yield requirement


def unmet(requirements: Iterable[Requirement], have: dict[str, Version]) -> list[str]:
    return [
        f"{requirement}: {have.get(canonicalize_name(requirement.name))}"
        for requirement in requirements
        if (version := have.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(version, prereleases=True)
    ]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.lock")), ids=lambda path: path.name)
def test_every_entry_has_one_version_and_hashes_and_names_no_index(path: Path) -> None:
    entries = locked(path)
    assert entries
    for entry in entries:
        assert entry.requirement.url is None
        assert entry.hashes, entry
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each.strip()) for each in entry.hashes)
    assert "://" not in path.read_text()


def test_each_lock_file_is_known_here() -> None:
    assert {path.name for path in FOLDER.glob("*.lock")} == {*BUILT, *(f"{e}.lock" for e in EXTRAS)}


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_file_satisfies_the_project_on_every_platform(name: str) -> None:
    entries = locked(FOLDER / f"{name}.lock")
    requirements = list(required(EXTRAS[name]))
    assert requirements
    for platform in PLATFORMS:
        assert unmet(requirements, versions(entries, platform)) == [], platform


def test_the_lock_files_agree_with_each_other() -> None:
    of_dev = locked(FOLDER / "dev.lock")
    for path in sorted(FOLDER.glob("*.lock")):
        if path.name != "tools.lock":  # an environment of its own
            for platform in PLATFORMS:
                main, other = versions(of_dev, platform), versions(locked(path), platform)
                differing = {n: (main[n], v) for n, v in other.items() if main.get(n, v) != v}
                assert differing == {}, path.name


def test_what_builds_the_project_is_locked() -> None:
    requires = [Requirement(line) for line in PROJECT["build-system"]["requires"]]
    have = versions(locked(FOLDER / "build.lock"), PLATFORMS[0])
    assert unmet(requires, have) == []


def test_what_the_locked_packages_require_is_locked() -> None:
    """Compares with the metadata of the installed packages, so only with those versions."""
    from packaging.markers import default_environment

    platform = {**default_environment(), "extra": ""}
    have = versions(locked(FOLDER / "dev.lock"), platform)
    compared = 0
    for name, version in have.items():
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        if Version(installed.version) != version:
            continue
        compared += 1
        requirements = [
            requirement
            for requirement in map(Requirement, installed.requires or ())
            if requirement.marker is None or requirement.marker.evaluate(platform)
        ]
        assert unmet(requirements, have) == [], name
    assert compared > 50


def test_a_missing_or_unsuitable_version_is_found() -> None:
    requirements = [Requirement("a>=2"), Requirement("b")]
    assert unmet(requirements, {"a": Version("1")}) == ["a>=2: 1", "b: None"]
    assert unmet(requirements, {"a": Version("2"), "b": Version("1")}) == []
