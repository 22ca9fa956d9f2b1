"""Helm, and what it makes of the chart."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.prometheus.promql import DEPLOY

CHART = DEPLOY / "helm" / "queryable-topics"
RELEASE = "queryable"
_COMMAND_S = 120.0

Values = Mapping[str, Any]


class Helm:
    """`folder` has Helm's own files. `kubeconfig`: of the cluster; None without one."""

    def __init__(self, program: Path, folder: Path, kubeconfig: Path | None = None) -> None:
        self._program, self._folder = program, folder
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig or folder / "none"),
        }

    def template(
        self, values: Values | None = None, namespace: str = RELEASE
    ) -> list[dict[str, Any]]:
        """The objects of the chart."""
        output = self.run("template", RELEASE, str(CHART), "-n", namespace, values=values)
        return [document for document in yaml.safe_load_all(output) if document is not None]

    def upgrade(self, namespace: str, values: Values | None = None) -> str:
        """Installs the chart, or upgrades the release. Returns the notes."""
        return self.run("upgrade", "--install", RELEASE, str(CHART), "-n", namespace, values=values)

    def refusal(self, values: Values) -> str:
        """Why Helm refuses these values."""
        done = self._run("template", RELEASE, str(CHART), values=values)
        assert done.returncode != 0, "Helm accepted the values"
        return done.stderr

    def run(self, *arguments: str, values: Values | None = None) -> str:
        """The output of a command. AssertionError with its errors if it fails."""
        done = self._run(*arguments, values=values)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def _run(self, *arguments: str, values: Values | None) -> subprocess.CompletedProcess[str]:
        if values is not None:
            (path := self._folder / "values.yaml").write_text(yaml.safe_dump(dict(values)))
            arguments = (*arguments, "--values", str(path))
        return subprocess.run(
            [self._program, *arguments],
            env=self._environment, capture_output=True, text=True, timeout=_COMMAND_S, check=False,
        )  # fmt: skip
