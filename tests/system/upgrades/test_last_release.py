from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from local.settings import REPOSITORY
from tests.system.upgrades.last_release import LAST_RELEASE, Release, has_history, unpacked


@pytest.mark.usefixtures("release")
def test_a_history_without_the_release_is_an_error_that_says_so(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shallow = ["git", "clone", "--quiet", "--depth", "1", REPOSITORY.as_uri(), str(clone)]
    subprocess.run(shallow, check=True, timeout=60)
    assert not has_history(clone)
    with pytest.raises(AssertionError, match="git fetch --unshallow") as raised:
        unpacked(tmp_path, clone)
    assert LAST_RELEASE in str(raised.value)


def test_the_release_has_the_packages_and_the_files_of_nginx(release: Release) -> None:
    assert (release.code / "backend" / "app.py").is_file()
    assert (release.code / "queryable" / "client").is_dir()
    assert (release.proxy_files / "nginx.conf").is_file()
    assert (release.proxy_files / "proxy" / "route.lua").is_file()
