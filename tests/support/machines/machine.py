"""Machines in network namespaces. A bridge connects them, and nothing else can reach them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.machines import systemctl

_CLONE_NEWNET = 0x40000000
_FOLDERS = ("/etc/", "/var/lib/", "/opt/")
"""Those that commands write to: each machine has its own."""
_NOTHING = ("apt-get", "useradd")
"""Commands that install what this machine has."""
_MAKE_VENV = """\
[ "$1 $2" = "-m venv" ] || exit 64
mkdir -p "$3/bin"
ln -sf {bin}/gunicorn {bin}/queryable "$3/bin/"
printf '#!/bin/sh\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip\""""
"""`python3 -m venv FOLDER`, with the programs of this virtual environment and a pip that does
nothing."""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def why_not() -> str:
    """Why there can be no machines here; empty if there can be."""
    if os.getuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "setpriv", "curl", "openssl"):
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
            return f"{program} is not there"
    name = f"qt{os.getpid()}-try"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "this machine allows no network namespaces"
    _ip("netns", "del", name)
    return ""


class Network:
    """A network namespace with a bridge, to which machines are connected. The thread that enters it
    is in the namespace, with the address `address`, until it exits; so are its processes."""

    def __init__(self, address: str, prefix: int = 24) -> None:
        self._name = f"qt{os.getpid()}-hub"
        self._address, self._prefix = address, prefix
        self._namespaces: list[str] = []
        self._before = -1

    def __enter__(self) -> Network:
        self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            self._add(self._name)
            _ip("-n", self._name, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self._name, "addr", "add", f"{self._address}/{self._prefix}", "dev", "bridge")
            _ip("-n", self._name, "link", "set", "bridge", "up")
            inside = os.open(f"/run/netns/{self._name}", os.O_RDONLY)
            self._enter(inside)
            os.close(inside)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._enter(self._before)
        os.close(self._before)
        for name in reversed(self._namespaces):
            end_all(name)
            _ip("netns", "del", name)

    def _add(self, name: str) -> None:
        _ip("netns", "add", name)
        self._namespaces.append(name)
        _ip("-n", name, "link", "set", "lo", "up")

    def connect(self, name: str, address: str) -> str:
        """Make a namespace for a machine with this address. Returns the name of the namespace."""
        namespace = f"qt{os.getpid()}-{name}"
        self._add(namespace)
        words = ("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("-n", self._name, *words)
        _ip("-n", self._name, "link", "set", name, "master", "bridge", "up")
        _ip("-n", namespace, "addr", "add", f"{address}/{self._prefix}", "dev", "eth0")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        return namespace

    @staticmethod
    def _enter(namespace: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def end_all(namespace: str) -> None:
    """Kill the processes in a network namespace of `Network`."""

    def pids() -> list[int]:
        found = subprocess.run(
            ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True
        )
        return [pid for pid in map(int, found.stdout.split()) if pid != os.getpid()]

    def have_ended() -> bool:
        for pid in (left := pids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_until(have_ended, 20, "the processes of a machine to end")


class Machine:
    """A machine: its folder has what its commands write to /etc, /var/lib and /opt."""

    def __init__(self, network: Network, folder: Path, hostname: str, address: str) -> None:
        self.hostname, self.address = hostname, address
        self.folder = folder
        self.namespace = network.connect(hostname, address)
        self.clone = folder / "clone"
        self._stubs = folder / "bin"
        self._lay_out()

    def _lay_out(self) -> None:
        for name in ("etc/systemd/system", "etc/logrotate.d", "var/lib", "opt/queryable"):
            (self.folder / name).mkdir(parents=True)
        self.clone.mkdir()
        shutil.copy(REPOSITORY / "nginx.conf", self.clone)
        for name in ("proxy", "deploy"):
            shutil.copytree(REPOSITORY / name, self.clone / name)
        for unit in (self.clone / "deploy/systemd").iterdir():
            unit.write_text(self._inside(unit.read_text()))
        self._stubs.mkdir()
        for name in _NOTHING:
            self._script(self._stubs / name, ":")
        self._script(self._stubs / "python3", _MAKE_VENV.format(bin=Path(sys.prefix) / "bin"))
        self._name(self.hostname)

    def _script(self, path: Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def _name(self, hostname: str) -> None:
        words = (sys.executable, systemctl.__file__, str(self.folder), hostname)
        self._script(self._stubs / "systemctl", f'exec {" ".join(words)} "$@"')
        self._script(self._stubs / "hostname", f"echo {hostname}")

    def rename(self, hostname: str) -> None:
        """Change the host name."""
        self.hostname = hostname
        self._name(hostname)

    def run(self, commands: str, timeout: float = 120) -> None:
        """Run commands of the documentation, in the clone."""
        commands = commands.replace("-o queryable -g queryable", "-o nobody -g nogroup")
        commands = commands.replace("-g queryable", "-g nogroup")
        done = subprocess.run(
            ["ip", "netns", "exec", self.namespace, "bash", "-euc", self._inside(commands)],
            cwd=self.clone,
            env={
                **os.environ,
                "PATH": f"{self._stubs}:{os.environ['PATH']}:/usr/sbin:/sbin",
                "PYTHONPATH": str(REPOSITORY),
            },
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip
        assert done.returncode == 0, f"{self.hostname}: {commands}\n{done.stdout}{done.stderr}"

    def _inside(self, text: str) -> str:
        """The text with paths in the folder of this machine."""
        for path in _FOLDERS:
            text = text.replace(f"{self.folder}{path}", path).replace(path, f"{self.folder}{path}")
        return text

    def service(self, name: str) -> systemctl.Service:
        return systemctl.Service(self.folder, self.hostname, name)

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text(errors="replace")

    def fail(self) -> None:
        """The machine loses its power."""
        _ip("-n", self.namespace, "link", "set", "eth0", "down")
        end_all(self.namespace)

    def boot(self, *services: str) -> None:
        """The machine starts again, with the services that are enabled."""
        _ip("-n", self.namespace, "link", "set", "eth0", "up")
        self.run(f"systemctl start {' '.join(services)}")


@contextlib.contextmanager
def folder_for_all(path: Path) -> Iterator[Path]:
    """A folder that services without root can reach, unlike pytest's."""
    path.mkdir(mode=0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)
