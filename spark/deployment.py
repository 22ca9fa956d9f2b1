"""Reads views.toml, for streams and for batch jobs."""

from __future__ import annotations

from pathlib import Path

from model.problems import ConfigurationError
from model.views import Deployment
from model.views_file import parse_views
from spark.errors import JobError


def read_deployment(file: Path) -> Deployment:
    """The parsed views.toml, with the schema files that it names. Raises JobError."""

    def read_beside(name: str) -> bytes:
        try:
            return (file.parent / name).read_bytes()
        except OSError as e:
            raise ValueError(f"cannot read the file: {e.strerror}") from None

    try:
        return parse_views(file.read_text(), str(file), read_beside)
    except OSError as e:
        raise JobError(f"cannot read {file}: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise JobError(f"{file} is not UTF-8 text: {e}") from None
    except ConfigurationError as e:
        raise JobError(str(e)) from None
