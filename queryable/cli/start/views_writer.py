"""Writes the views file of `queryable init`. A file that exists is never replaced unasked."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from model.problems import ConfigurationError
from model.views_file import parse_views
from queryable.cli.start.questions import ask_choice
from queryable.client.protocol.errors import BadUse

ADD, REPLACE, STOP = "add", "replace", "stop"


def what_to_do(path: Path, *, add: bool, force: bool, is_interactive: bool) -> str:
    """REPLACE if there is no file. Raises BadUse if there is one and nobody to ask."""
    if force or not path.exists():
        return REPLACE
    if add:
        return ADD
    if is_interactive:
        return ask_choice(f"{path} exists. Add to it, replace it, or stop?", (ADD, REPLACE, STOP))
    raise BadUse(
        f"{path} exists and was not changed. --add adds the view to it, --force replaces it, and "
        "--views FILE writes another file."
    )


def write_views(path: Path, kafka: str, entries: str, *, is_added: bool) -> None:
    """`kafka` is the TOML of [kafka], which an existing file keeps. Raises BadUse."""
    try:
        text = f"{path.read_text().rstrip()}\n\n{entries}" if is_added else kafka + entries
        if is_added:
            _require_valid(path, text)
        folder = path.absolute().parent
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".views-", delete=False) as file:
            file.write(text)
        # it may have passwords: only this user reads it, as NamedTemporaryFile has created it
        os.replace(file.name, path)
    except OSError as error:
        raise BadUse(f"Cannot write {path}: {error.strerror}.") from None


def _require_valid(path: Path, text: str) -> None:
    """A view of this name may exist already."""

    def read(name: str) -> bytes:
        try:
            return (path.parent / name).read_bytes()
        except OSError as error:
            raise ValueError(f"cannot read the file: {error.strerror}") from None

    try:
        parse_views(text, str(path), read)
    except ConfigurationError as error:
        raise BadUse(f"The view cannot be added, {path} was not changed: {error}.") from None
