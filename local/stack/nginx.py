"""Creates the folder that nginx runs in (see proxy/README.md), and the command that starts it with
proxy/start, as in containers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from local.errors import LocalError, tail
from local.settings import REPOSITORY
from model.machine.limits import processors

_PACKAGES = "nginx libnginx-mod-http-lua lua-resty-core lua-cjson"
_INSTALL = (
    f"On Debian: `apt install {_PACKAGES}`; in a checkout, `make setup` does this. "
    "`queryable serve --without-nginx` does not need it."
)
_IN_THE_WHEEL = Path("share") / "queryable-topics"  # data-files in pyproject.toml


class NginxMissing(LocalError):
    """This machine has no nginx with Lua. ``reason``: a sentence without its full stop."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}. {_INSTALL}")
        self.reason = reason


def why_nginx_is_missing() -> str | None:
    """Why this machine cannot run the proxy; None if it can. Raises ``LocalError`` if nginx has Lua
    and refuses the configuration."""
    with TemporaryDirectory(prefix="queryable-nginx-") as prefix:
        try:
            check_configuration(lay_out(Path(prefix), port=1))
        except NginxMissing as error:
            return error.reason
    return None


def proxy_files() -> Path:
    """The folder with nginx.conf and proxy/: of the checkout, or of the installed package."""
    folders = [
        REPOSITORY,
        Path(sysconfig.get_path("data")) / _IN_THE_WHEEL,
        Path(sysconfig.get_path("data", sysconfig.get_preferred_scheme("user"))) / _IN_THE_WHEEL,
        REPOSITORY / _IN_THE_WHEEL,  # pip install --target
    ]
    for folder in folders:
        if (folder / "nginx.conf").is_file():
            return folder
    raise LocalError(f"nginx.conf is in none of {', '.join(map(str, folders))}: install again.")


def find_nginx() -> str:
    """The path of nginx or openresty; ``NginxMissing`` if neither is installed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    for name in ("nginx", "openresty"):
        if executable := shutil.which(name, path=path):
            return executable
    raise NginxMissing("nginx is not installed")


def workers_beside_backends() -> int:
    """The number of nginx's workers on a machine that runs the backends, too: a third of its cores.
    With few workers, more reads travel together (docs/sizing.md)."""
    return max(1, processors() // 3)


def lay_out(
    prefix: Path, port: int, *, files: Path | None = None, workers: int | None = None
) -> list[str]:
    """Prepares ``prefix`` for nginx on 127.0.0.1:``port``; returns the command that starts it.

    The configuration and the Lua modules are links to those of ``files`` (default:
    ``proxy_files``), so a reload reads changes there. ``workers``: their number (default: what
    proxy/start computes). Options of nginx may be added to the command.
    """
    nginx = find_nginx()
    files = files or proxy_files()
    try:
        (prefix / "logs").mkdir(parents=True, exist_ok=True)
        _link(prefix / "nginx.conf", files / "nginx.conf")
        _link(prefix / "proxy", files / "proxy")
        _link(prefix / "limits.conf", files / "proxy" / "limits.conf")
        if modules := _modules_folder(nginx):
            _link(prefix / "modules", modules)
        (prefix / "listen.conf").write_text(f"listen 127.0.0.1:{port};\n")
    except OSError as error:
        raise LocalError(f"cannot prepare nginx's folder {prefix}: {error}.") from error
    # -e: nginx writes to /var/log/nginx before it has read the configuration.
    arguments = ["-e", f"{prefix}/logs/error.log", "-p", f"{prefix}/", "-c", f"{prefix}/nginx.conf"]
    number = [] if workers is None else ["-w", str(workers)]
    return ["/bin/sh", str(prefix / "proxy" / "start"), *number, nginx, *arguments]


def _link(path: Path, target: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    path.symlink_to(target)


def _modules_folder(nginx: str) -> Path | None:
    """The folder of this nginx's dynamic modules; None if it has none."""
    shown = subprocess.run([nginx, "-V"], capture_output=True, text=True, check=False).stderr
    match = re.search(r"--modules-path=(\S+)", shown)
    return Path(match.group(1)) if match and Path(match.group(1)).is_dir() else None


def check_configuration(command: list[str]) -> None:
    """Raises ``LocalError`` if nginx cannot run with the configuration of ``lay_out``, and
    ``NginxMissing`` if the reason is that it has no Lua."""
    done = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    if re.search(r'unknown directive "\w*lua|module .*(resty|cjson)', done.stderr):
        raise NginxMissing("nginx has no Lua module, or a Lua library is missing")
    raise LocalError(
        f"nginx cannot run with its configuration (`queryable serve --without-nginx` does not need "
        f"it):\n{tail(done.stderr)}"
    )
