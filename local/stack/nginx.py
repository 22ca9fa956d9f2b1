"""Creates the folder that nginx runs in (see proxy/README.md), and the command that starts it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from local.errors import LocalError
from local.settings import REPOSITORY


def find_nginx() -> str:
    """The path of nginx or openresty; ``LocalError`` if neither is installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in ("nginx", "openresty"):
        if found := shutil.which(name, path=path):
            return found
    raise LocalError("nginx is not installed: run `make setup`.")


def lay_out(prefix: Path, port: int, *, repository: Path = REPOSITORY) -> list[str]:
    """Prepares ``prefix`` for nginx on 127.0.0.1:``port``; returns the command that starts it.

    The configuration and the Lua modules are links into the repository, so a reload reads changes
    there.
    """
    nginx = find_nginx()
    try:
        (prefix / "logs").mkdir(parents=True, exist_ok=True)
        _link(prefix / "nginx.conf", repository / "nginx.conf")
        _link(prefix / "proxy", repository / "proxy")
        _link(prefix / "limits.conf", repository / "proxy" / "limits.conf")
        if modules := _modules_folder(nginx):
            _link(prefix / "modules", modules)
        (prefix / "listen.conf").write_text(f"listen 127.0.0.1:{port};\n")
    except OSError as error:
        raise LocalError(f"cannot prepare nginx's folder {prefix}: {error}.") from error
    # -e: nginx writes to /var/log/nginx before it has read the configuration.
    arguments = ["-e", f"{prefix}/logs/error.log", "-p", f"{prefix}/", "-c", f"{prefix}/nginx.conf"]
    return [nginx, *arguments, "-g", "daemon off;"]


def _link(path: Path, target: Path) -> None:
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target)


def _modules_folder(nginx: str) -> Path | None:
    """The folder of this nginx's dynamic modules; None if it has none."""
    shown = subprocess.run([nginx, "-V"], capture_output=True, text=True, check=False).stderr
    found = re.search(r"--modules-path=(\S+)", shown)
    return Path(found.group(1)) if found and Path(found.group(1)).is_dir() else None
