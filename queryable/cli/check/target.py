"""What `check` looks at: the shell's environment, a file of settings, a unit of systemd, or what
`queryable serve` runs with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from queryable.cli.check.env_file import read_env_file
from queryable.cli.check.findings import Finding, ok
from queryable.cli.check.units import FOLDERS, read_unit
from queryable.client.protocol.errors import BadUse

SERVED = Path(".queryable", "instance.env")
"""Where `queryable serve` writes the settings of its first backend, in its folder."""

_PREFIX = "QUERYABLE_"
_DEPLOYMENT_VARIABLES = ("QUERYABLE_APPLICATION_ID", "QUERYABLE_DATA_DIR", "QUERYABLE_VIEWS")


@dataclass(frozen=True)
class Target:
    """A process to check. `environment`: its variables. `folder`: its working directory; None: the
    current one. `finding`: where its settings come from; None: from the shell. `open_files`,
    `memory_max` (bytes): its limits; None: those of this process."""

    environment: Mapping[str, str]
    folder: Path | None = None
    finding: Finding | None = None
    open_files: int | None = None
    memory_max: int | None = None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context in which this process has the environment and the working directory of the
        target, so that all checks read them as a backend does."""
        environment, folder = dict(os.environ), Path.cwd()
        try:
            os.environ.clear()
            os.environ.update(self.environment)
            if self.folder is not None:
                os.chdir(self.folder)
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)


def find_target(
    env_files: Sequence[Path], unit: str | None, is_named: bool, folders: Sequence[str] = FOLDERS
) -> Target:
    """`env_files`: the later ones override the earlier. `unit`: its name. `is_named`: whether
    options say which views or data folder to check. Raises BadUse."""
    if env_files and unit is not None:
        raise BadUse("Name either a unit or files of settings: --unit or --env-file.")
    shell = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    if unit is not None:
        service = read_unit(unit, folders)
        if not service.folder.is_dir():
            raise BadUse(f"The working directory of {unit}, {service.folder}, does not exist.")
        files = ", ".join(map(str, service.files))
        return Target(
            {**shell, **service.environment}, service.folder,
            ok("deployment", f"the unit {unit}, from {files}"),
            service.open_files, service.memory_max,
        )  # fmt: skip
    if env_files:
        merged = dict(shell)
        for path in env_files:
            merged |= read_env_file(path)
        names = ", ".join(map(str, env_files))
        return Target(merged, finding=ok("deployment", f"the settings in {names}"))
    if SERVED.is_file() and not is_named and not any(map(os.environ.get, _DEPLOYMENT_VARIABLES)):
        return Target(
            {**os.environ, **read_env_file(SERVED)},
            finding=ok("deployment", f"what `queryable serve` runs in this folder, from {SERVED}"),
        )
    return Target(dict(os.environ))
