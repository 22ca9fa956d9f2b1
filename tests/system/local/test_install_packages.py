"""The set-up script, with fake programs instead of Debian's. The tests install nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from local.settings import REPOSITORY

SCRIPT = REPOSITORY / "local" / "install-packages"
SIGNALS = ("HUP", "INT", "TERM")
TOOLS = [
    "python3",
    "java",
    "mvn",
    "chromium",
    "chromedriver",
    "docker-compose",
    "jq",
    "logrotate",
    "gcc",
]


@pytest.fixture
def machine(tmp_path: Path) -> "Machine":
    return Machine(tmp_path)


class Machine:
    """A PATH with fake programs only; it records every call of apt-get."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        self.calls = folder / "calls"
        for tool in TOOLS:
            self.has(tool)
        self.has("dpkg-query", "echo installed")
        self.has("apt-get", f'echo "$@" >> {self.calls}')
        self.has("id", "echo 0")
        self.has("env", 'shift; exec "$@"')
        for real in ("mktemp", "rm", "tail", "cat"):
            (self._bin / real).symlink_to(f"/usr/bin/{real}")

    def has(self, name: str, does: str = "exit 0") -> None:
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)

    def lacks(self, name: str) -> None:
        (self._bin / name).unlink()

    def lacks_packages(self, *names: str) -> None:
        patterns = "|".join(f'*" {name}"' for name in names)
        self.has("dpkg-query", f'case "$*" in {patterns}) exit 1 ;; esac; echo installed')

    def run(self, what: str, script: Path = SCRIPT) -> subprocess.CompletedProcess[str]:
        # the script also searches /usr/sbin, which has no program that these tests need;
        # the tests themselves may run with signals that are ignored, as by nohup
        return subprocess.run(
            ["/usr/bin/env", "--default-signal", "/bin/sh", str(script), what],
            env={"PATH": str(self._bin), "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def installed(self) -> str:
        return self.calls.read_text() if self.calls.exists() else ""


@pytest.mark.parametrize("what", ["run", "test", "bench"])
def test_without_missing_packages_nothing_is_done(machine: Machine, what: str) -> None:
    done = machine.run(what)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.installed == ""


def test_only_missing_packages_are_installed(machine: Machine) -> None:
    machine.lacks("mvn")
    machine.lacks_packages("lua-cjson")
    done = machine.run("run")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "installing Debian packages: maven lua-cjson\n"
    [update, install] = machine.installed.splitlines()
    assert update.endswith("update")
    assert install.endswith("--no-install-recommends --no-remove maven lua-cjson")


def test_a_compiler_and_python_s_headers_are_needed(machine: Machine) -> None:
    machine.lacks("gcc")
    machine.has("python3", "case $2 in *Python.h*) exit 1 ;; esac")
    assert machine.run("run").returncode == 0
    assert machine.installed.endswith("--no-remove python3-dev gcc libc6-dev\n")


def test_the_tests_need_more_than_the_demo(machine: Machine) -> None:
    machine.lacks_packages("luajit2")
    machine.lacks("chromium")
    assert machine.run("run").returncode == 0
    assert machine.installed == ""
    assert machine.run("test").returncode == 0
    assert machine.installed.endswith("luajit2 chromium\n")


def test_a_newly_installed_service_is_disabled(machine: Machine) -> None:
    machine.lacks_packages("nginx", "wrk")
    machine.has("tee", "exec cat >/dev/null")
    machine.has("chmod")
    machine.has("systemctl", f'echo "systemctl $@" >> {machine.calls}')
    assert machine.run("bench").returncode == 0
    _, install, *disabled = machine.calls.read_text().splitlines()
    assert install.endswith("nginx wrk")
    assert disabled == ["systemctl disable nginx"]


def test_a_service_that_was_installed_before_is_not_changed(machine: Machine) -> None:
    machine.lacks_packages("wrk")
    machine.has("systemctl", f'echo "systemctl $@" >> {machine.calls}')
    assert machine.run("bench").returncode == 0
    assert "systemctl" not in machine.calls.read_text()


@pytest.mark.parametrize(("signal", "is_installed"), [("", True), *((n, False) for n in SIGNALS)])
def test_the_policy_against_starts_is_removed_however_the_script_ends(
    machine: Machine, tmp_path: Path, signal: str, is_installed: bool
) -> None:
    policy = tmp_path / "policy-rc.d"
    text = SCRIPT.read_text()
    assert "policy=/usr/sbin/policy-rc.d\n" in text
    script = tmp_path / "install-packages"
    script.write_text(text.replace("policy=/usr/sbin/policy-rc.d\n", f"policy={policy}\n"))
    machine.lacks_packages("nginx")
    machine.has("tee", 'cat > "$1"')
    machine.has("chmod")
    end = f"kill -{signal} $PPID" if signal else ""
    machine.has("apt-get", f'test -s {policy} && echo "$@" >> {machine.calls}\n{end}')
    done = machine.run("run", script)
    assert "update" in machine.installed, "the policy exists while packages are installed"
    assert ("install" in machine.installed) is is_installed
    assert (done.returncode == 0) is is_installed
    assert not policy.exists()


def test_without_root_and_sudo_the_error_has_instructions(machine: Machine) -> None:
    machine.lacks("java")
    machine.has("id", "echo 1000")
    done = machine.run("run")
    assert done.returncode == 1
    assert "As root: apt-get install --no-install-recommends default-jdk-headless" in done.stderr
    assert machine.installed == ""


def test_a_failure_of_apt_is_reported(machine: Machine) -> None:
    machine.lacks("java")
    machine.has("apt-get", "echo 'E: Unable to locate package'; exit 100")
    done = machine.run("run")
    assert done.returncode == 1
    assert "E: Unable to locate package" in done.stderr
    assert "error: apt-get could not install default-jdk-headless" in done.stderr


def test_an_old_python_is_an_error(machine: Machine) -> None:
    machine.has("python3", 'case $1 in -V) echo "Python 3.9.2" ;; *) exit 1 ;; esac')
    done = machine.run("run")
    assert done.returncode == 1
    assert "Python 3.11 or newer is required; python3 is Python 3.9.2" in done.stderr
