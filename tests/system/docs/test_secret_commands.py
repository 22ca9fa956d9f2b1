"""The documented commands that create the cluster secret and replace it."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path

from backend.security.cluster_secret import parse
from local.settings import REPOSITORY

FOLDER = "/etc/queryable"


def test_the_commands_for_the_cluster_secret(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "security" / "between-processes.md").read_text()
    create, prepare, *steps = commands(text, "## The cluster secret", "## TLS")
    folder = tmp_path / "queryable"
    file = folder / "cluster-secret"

    def run(block: str) -> list[bytes]:
        # tests have no user `queryable`, and may have no right to use another group
        block = block.replace(FOLDER, str(folder)).replace(" -m 640 -g queryable", " -m 600")
        block = f"cd {folder} 2>/dev/null\nset -e\n" + block.replace(" -g queryable", "")
        subprocess.run(["bash", "-c", block], check=True, cwd=tmp_path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        return list(parse(file.read_bytes()))

    [old] = run(create)
    assert run(prepare) == [old]
    [new] = parse((folder / "next-secret").read_bytes())
    assert new != old
    assert [run(step) for step in steps] == [[old, new], [new, old], [new]]
    assert [path.name for path in folder.iterdir()] == ["cluster-secret"]


def commands(text: str, begin: str, end: str) -> list[str]:
    """The blocks of shell commands between two headings."""
    [part] = re.findall(rf"^{begin}$(.*?)^{end}$", text, re.S | re.M)
    return re.findall(r"```sh\n(.*?)```", part, re.S)
