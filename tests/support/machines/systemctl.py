"""A systemctl that knows as much of systemd as the packaged units need:

    systemctl.py FOLDER HOSTNAME enable --now queryable-backend@b1 queryable-proxy

FOLDER has the units in etc/systemd/system, with paths in FOLDER. Services are not started again
when they end. It imports nothing of the project, because it is a program of the machine.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

NOBODY = 65534
"""The user and group of services, as the machine of the test has no `queryable`."""
_AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Service:
    """A service of a machine, as its unit says."""

    def __init__(self, folder: Path, hostname: str, name: str) -> None:
        self.name = name = name.removesuffix(".service")
        template, at, instance = name.partition("@")
        text = (folder / "etc/systemd/system" / f"{template}{at}.service").read_text()
        for specifier, value in (("%i", instance), ("%H", hostname)):
            text = text.replace(specifier, value)
        self._values: defaultdict[str, list[str]] = defaultdict(list)
        for line in text.splitlines():
            if "=" in line and not line.startswith("#"):
                key, _, value = line.partition("=")
                self._values[key].append(value)
        self._folder = folder
        self._pid_file = folder / "run" / f"{name}.pid"

    def _one(self, key: str, default: str = "") -> str:
        return self._values[key][-1] if key in self._values else default

    @property
    def _environment(self) -> dict[str, str]:
        """As in systemd, files take precedence."""
        found = {"PATH": _PATH, "PYTHONPATH": os.environ["PYTHONPATH"]}
        for value in self._values["Environment"]:
            found.update(part.partition("=")[::2] for part in shlex.split(value))
        for path in self._values["EnvironmentFile"]:
            lines = Path(path).read_text().splitlines()
            found.update(line.partition("=")[::2] for line in lines if line and line[0] != "#")
        return found

    @property
    def pid(self) -> int:
        """0 if it does not run."""
        try:
            pid = int(self._pid_file.read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return 0
        return 0 if state == "Z" else pid

    def start(self) -> None:
        if self.pid:
            return
        for names in self._values["StateDirectory"]:
            for name in names.split():
                path = self._folder / "var/lib" / name
                path.mkdir(parents=True, exist_ok=True)
                for folder, _, files in os.walk(path):
                    for entry in (folder, *(os.path.join(folder, file) for file in files)):
                        shutil.chown(entry, NOBODY, NOBODY)
        command = shlex.split(self._one("ExecStart"))
        # Python may be in a folder of root
        can = subprocess.run([*_AS_NOBODY, "test", "-x", os.path.realpath(command[0])], check=False)
        self._pid_file.parent.mkdir(exist_ok=True)
        with (self._folder / f"{self.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*(_AS_NOBODY if can.returncode == 0 else []), *command],
                env=self._environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._pid_file.write_text(str(process.pid))

    def stop(self) -> None:
        pid = self.pid
        if not pid:
            return
        os.kill(pid, signal.Signals[self._one("KillSignal", "SIGTERM")])
        deadline = time.monotonic() + float(self._one("TimeoutStopSec"))
        while self.pid and time.monotonic() < deadline:
            time.sleep(0.02)
        if self.pid:
            os.killpg(pid, signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def reload(self) -> None:
        command = self._one("ExecReload").replace("$MAINPID", str(self.pid))
        subprocess.run(shlex.split(command), check=True)


def main(folder: str, hostname: str, verb: str, *names: str) -> None:
    # Debian's own service does not run
    given = [name for name in names if name[0] != "-" and name != "nginx"]
    services = [Service(Path(folder), hostname, name) for name in given]
    match verb:
        case "enable" | "disable":
            for service in services if "--now" in names else ():
                service.start() if verb == "enable" else service.stop()
        case "start" | "stop" | "restart" | "reload":
            for service in services:
                getattr(service, verb)()
        case "daemon-reload":
            pass
        case _:
            sys.exit(f"systemctl {verb}: not known")


if __name__ == "__main__":
    main(*sys.argv[1:])
