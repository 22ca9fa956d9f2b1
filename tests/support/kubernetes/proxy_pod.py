"""The command of nginx's container, run on this machine with Debian's nginx."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.stack.nginx import find_nginx, lay_out


def check_nginx(
    folder: Path,
    pod: dict[str, Any],
    config_maps: Mapping[str, Mapping[str, str]],
    settings: Mapping[str, str],
    secrets: Mapping[str, Mapping[str, bytes]] | None = None,
) -> Path:
    """Let nginx check the configuration that the container of `pod` starts with. All paths of the
    container are below `folder`. `config_maps` and `secrets`: name, then file name, then content.
    Returns nginx's folder. AssertionError with nginx's message if it refuses the configuration."""
    links, image, mounted = (folder / name for name in ("links", "image", "mounted"))
    lay_out(links, 8080)
    for name in ("logs", "modules"):  # OpenResty has no modules
        if (links / name).exists():
            (links / name).rename(folder / name)
    shutil.copytree(links, image)  # the test must not write to the repository's files
    [container] = pod["containers"]
    paths = {"/opt/queryable-proxy": image, "/srv": folder / "srv"}
    for volume in pod["volumes"]:
        if "configMap" in volume:
            files: Mapping[str, str | bytes] = config_maps[volume["configMap"]["name"]]
        elif "secret" in volume:
            files = (secrets or {}).get(volume["secret"]["secretName"], {})
        else:
            continue
        [path] = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == volume["name"]]
        paths[path] = mounted / path.strip("/")
        paths[path].mkdir(parents=True)
        for name, content in files.items():
            (paths[path] / name).write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
    script = container["command"][-1].replace("openresty", find_nginx())
    environment = {"PATH": os.environ["PATH"]}
    for variable in container["env"]:
        source = variable.get("valueFrom", {}).get("configMapKeyRef")
        value = settings[source["key"]] if source else variable["value"]
        environment[variable["name"]] = value
    # the secret is read by workers, and its file must not be readable for others
    del environment["QUERYABLE_CLUSTER_SECRET_FILE"]
    for path, below in sorted(paths.items(), reverse=True):  # longer paths before their beginnings
        script = script.replace(f"{path}/", f"{below}/")
        environment = {
            name: value.replace(f"{path}/", f"{below}/") for name, value in environment.items()
        }
    (folder / "srv").mkdir()
    if (folder / "modules").exists():
        (folder / "modules").rename(folder / "srv" / "modules")
    done = subprocess.run(
        ["sh", "-c", script.replace("/dev/std", f"{folder}/logs/std") + " -t"],
        env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "srv"
