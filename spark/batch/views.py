"""Reads views.toml for batch jobs."""

from __future__ import annotations

from pathlib import Path

from model.problems import ConfigurationError
from model.views import Deployment, View
from model.views_file import parse_views
from spark.errors import JobError


def read_deployment(path: str) -> tuple[Deployment, dict[str, View]]:
    """The content of a views.toml, and its views by name. Raises JobError."""
    file = Path(path)

    def read_beside(name: str) -> bytes:
        try:
            return (file.parent / name).read_bytes()
        except OSError as e:
            raise ValueError(f"cannot read the file: {e.strerror}") from None

    try:
        deployment = parse_views(file.read_text(), path, read_beside)
    except OSError as e:
        raise JobError(f"cannot read {path}: {e.strerror}") from None
    except (UnicodeDecodeError, ConfigurationError) as e:
        raise JobError(str(e)) from None
    return deployment, {view.name: view for view in deployment.views}
