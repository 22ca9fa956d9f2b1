"""Writes the views file of `queryable init`. A file that exists is never replaced unasked."""

from __future__ import annotations

import os
import stat
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from model.problems import ConfigurationError
from model.schemas_table import parse_schemas, registry_url
from model.toml_lines import TomlErrors
from model.views_file import parse_views
from queryable.cli.adopt.prompts import NO_VALUE
from queryable.cli.connection_settings import connection_settings
from queryable.cli.exit_codes import print_stderr
from queryable.cli.inspection.schema_sources import (
    REGISTRY_OPTION,
    SchemaFetcher,
    source_of_table,
)
from queryable.cli.start.questions import ask_choice
from queryable.client.protocol.errors import BadUse

ADD, REPLACE, STOP = "add", "replace", "stop"
_ANY_VIEW = '\n[views.any]\ntopic = "any"\nkey = "string"\nvalue = "json"\n'


def what_to_do(path: Path, *, add: bool, force: bool, is_interactive: bool) -> str:
    """REPLACE if there is no file. Raises BadUse if there is one and no terminal, or if the
    options contradict each other."""
    if add and force:
        raise BadUse("--add keeps the views of an existing file, --force replaces it: use one.")
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


def kafka_to_add(path: Path, table: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of `table` if the existing file has no [kafka]; none if it has the same ones.
    Raises BadUse if it has others."""
    if not table:
        return {}
    if "kafka" not in tomllib.loads(_text_of(path)):
        return table
    if connection_settings(path) != table:
        raise BadUse(
            f"[kafka] of {path} has other settings than the file of --kafka, and was not changed. "
            f"Edit it, or use it: --kafka {path}."
        )
    return {}


def existing_schemas(path: Path, registry: str | None) -> SchemaFetcher | None:
    """The source of schemas in [schemas] of the existing file; None if it has no such table. Raises
    BadUse if `registry`, the URL that the user gives, is another one."""
    text = _text_of(path)
    table = tomllib.loads(text).get("schemas")
    try:
        schemas = parse_schemas(table, TomlErrors(text, str(path)))
        is_other = (
            registry not in (None, NO_VALUE)
            and table is not None
            and registry_url(registry or "") != schemas.get("registry")
        )
    except ConfigurationError as error:
        raise BadUse(f"{error}.") from None
    except ValueError as error:
        raise BadUse(f"{REGISTRY_OPTION}: {error}.") from None
    if is_other:
        raise BadUse(
            f"[schemas] of {path} has another source than {REGISTRY_OPTION}, and was not changed. "
            f"Edit it, or omit {REGISTRY_OPTION}."
        )
    return source_of_table(schemas, path)


def _text_of(path: Path) -> str:
    """The content of a TOML file. Raises BadUse."""
    try:
        text = path.read_text()
        tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadUse(f"Cannot read {path}: {error}.") from None
    return text


def write_views(path: Path, kafka: str, entries: str, *, is_added: bool) -> None:
    """`kafka` is the TOML of [kafka]; an existing file that has this table gets none. Its mode and
    group stay, but other users may not read a [kafka] that is written. Raises BadUse."""
    try:
        before = path.stat() if path.exists() else None
        text = kafka + entries
        if is_added:
            text = f"{path.read_text().rstrip()}\n\n{text}"
            _require_valid(path, text)
        replace_file(path, text.encode(), before, has_secrets=bool(kafka))
    except OSError as error:
        raise BadUse(f"Cannot write {path}: {error.strerror}.") from None


def replace_file(
    path: Path,
    content: bytes,
    before: os.stat_result | None,
    *,
    has_secrets: bool,
    new_mode: int | None = None,
) -> None:
    """Write a file at once. `before`: of the file that is replaced. The new one has its owner and
    group, as far as this user may give them. `new_mode`: of a file that was not there; None if it
    may have passwords. Raises OSError."""
    with tempfile.NamedTemporaryFile(
        dir=path.absolute().parent, prefix=".views-", delete=False
    ) as file:
        try:
            file.write(content)
            # a new file may have passwords: only this user reads it, as it has been created
            if before is None and new_mode is not None:
                os.fchmod(file.fileno(), new_mode)
            elif before is not None:
                _keep_owner(path, file.fileno(), before)
                mode = stat.S_IMODE(before.st_mode)
                os.fchmod(file.fileno(), mode & ~stat.S_IRWXO if has_secrets else mode)
                if has_secrets and mode & stat.S_IROTH:
                    print_stderr(f"{path}: only its user and group may read it, for its [kafka]")
            file.close()
            os.replace(file.name, path)
        except OSError:
            with suppress(OSError):
                os.unlink(file.name)
            raise


def _keep_owner(path: Path, new: int, before: os.stat_result) -> None:
    for owner in (before.st_uid, -1):  # -1: it stays
        with suppress(PermissionError):
            os.fchown(new, owner, before.st_gid)
            break
    after = os.fstat(new)
    if (after.st_uid, after.st_gid) != (before.st_uid, before.st_gid):
        print_stderr(f"{path}: it has another owner or group now; may the backends read it?")


def _require_valid(path: Path, text: str) -> None:
    """A view of this name may exist already."""

    def read(name: str) -> bytes:
        try:
            return (path.parent / name).read_bytes()
        except OSError as error:
            raise ValueError(f"cannot read the file: {error.strerror}") from None

    try:
        # a file with sources may have no views yet
        has_views = "views" in tomllib.loads(text)
        parse_views(text if has_views else text + _ANY_VIEW, str(path), read)
    except (ConfigurationError, tomllib.TOMLDecodeError) as error:
        raise BadUse(f"It cannot be added, {path} was not changed: {error}.") from None
