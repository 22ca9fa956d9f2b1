"""What a unit of systemd starts a backend with, from the unit's files: systemd need not run.

See systemd.unit(5) and systemd.exec(5). Read are `Environment=`, `EnvironmentFile=`,
`WorkingDirectory=`, `LimitNOFILE=` and `MemoryMax=` of the section [Service], in the unit's file
and its drop-ins.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from queryable.cli.check.env_file import read_env_file
from queryable.client.protocol.errors import BadUse

FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
           "/usr/lib/systemd/system", "/lib/systemd/system")  # fmt: skip
"""Where units are, the first one wins."""

_DEFAULT_FILES = 524_288  # hard limit of DefaultLimitNOFILE=
_MAX_FILES = 1_048_576  # the kernel's default of fs.nr_open
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SETTING = re.compile(r"([A-Za-z]+)\s*=\s*(.*)")


@dataclass(frozen=True)
class Unit:
    """A unit of systemd. `environment`: of its process. `folder`: its working directory.
    `open_files`: how many it may have. `memory_max`: bytes; None: no limit. `files`: those that
    were read."""

    environment: Mapping[str, str]
    folder: Path
    open_files: int
    memory_max: int | None
    files: tuple[Path, ...]


def read_unit(name: str, folders: Sequence[str] = FOLDERS) -> Unit:
    """The unit with this name, such as `queryable-backend@b1`; `.service` may be left out. Raises
    BadUse if there is none, or if one of its files cannot be read."""
    full = name if name.endswith(".service") else f"{name}.service"
    files = _files(full, folders)
    if not files:
        raise BadUse(
            f"There is no unit {full} in {', '.join(folders)}. docs/installation.md says how to "
            "install one. Without systemd, name the file of its settings with --env-file."
        )
    settings = list(_settings(files))
    environment: dict[str, str] = {}
    from_files: list[str] = []
    single: dict[str, str] = {}
    for key, raw in settings:
        value = _expanded(raw, full)
        if key == "Environment":
            environment = {**environment, **_assignments(value)} if value else {}
        elif key == "EnvironmentFile":
            from_files = [*from_files, value] if value else []
        else:
            single[key] = value
    for entry in from_files:
        # a file overrides Environment=, wherever it is in the unit
        if not entry.startswith("-"):
            environment |= read_env_file(Path(entry))
        elif Path(entry[1:]).exists():
            environment |= read_env_file(Path(entry[1:]))
    return Unit(
        environment,
        Path(single.get("WorkingDirectory", "/").lstrip("-") or "/"),
        _limit(single.get("LimitNOFILE", "")),
        _bytes(single.get("MemoryMax", "")),
        files,
    )


def _files(unit: str, folders: Sequence[str]) -> tuple[Path, ...]:
    """The file of the unit, or of its template, and then its drop-ins in their order."""
    stem, at, _ = unit.removesuffix(".service").partition("@")
    names = [unit, f"{stem}@.service"] if at else [unit]
    main = next(
        (path for name in names for folder in folders if (path := Path(folder, name)).is_file()),
        None,
    )
    if main is None:
        return ()
    drop_ins: dict[str, Path] = {}
    for name in reversed(names):
        for folder in reversed(folders):
            drop_ins |= {path.name: path for path in Path(folder, f"{name}.d").glob("*.conf")}
    return main, *(drop_ins[name] for name in sorted(drop_ins))


def _settings(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """The settings of the section [Service]. A line that ends with a backslash continues."""
    for path in files:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadUse(f"Cannot read {path}: {getattr(error, 'strerror', error)}.") from None
        section, pending = "", ""
        for line in text.splitlines():
            if line.lstrip()[:1] in ("#", ";"):
                continue  # also between continued lines
            line = pending + line.strip()
            pending = ""
            if line.endswith("\\"):
                pending = f"{line[:-1]} "
            elif line.startswith("["):
                section = line.strip("[]")
            elif section == "Service" and (setting := _SETTING.fullmatch(line)) is not None:
                yield setting[1], setting[2]


def _assignments(value: str) -> dict[str, str]:
    """Assignments NAME=value, separated by blanks. Each may be quoted."""
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise BadUse(f"Environment={value} cannot be read: {error}.") from None
    return dict(word.split("=", 1) for word in words if "=" in word)


def _expanded(value: str, unit: str) -> str:
    """The value with systemd's specifiers for names of units and of this machine."""
    name, host = unit.removesuffix(".service"), socket.gethostname()
    prefix, _, instance = name.partition("@")
    known = {"i": instance, "I": _unescaped(instance), "n": unit, "N": name, "p": prefix,
             "P": _unescaped(prefix), "H": host, "l": host.partition(".")[0], "%": "%"}  # fmt: skip
    return re.sub("%(.)", lambda match: known.get(match[1], match[0]), value)


def _unescaped(name: str) -> str:
    """The inverse of systemd-escape(1)."""
    text = name.replace("-", "/")
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), text)


def _limit(value: str) -> int:
    """The hard limit: `65536`, `1024:65536` or `infinity`."""
    hard = value.rpartition(":")[2]
    if hard == "infinity":
        return _MAX_FILES
    return int(hard) if hard.isdigit() else _DEFAULT_FILES


def _bytes(value: str) -> int | None:
    number, unit = value[:-1], value[-1:]
    if value.isdigit():
        return int(value)
    return int(number) * _UNITS[unit] if number.isdigit() and unit in _UNITS else None
