"""How to connect to Kafka: the table [kafka] of the file that `--kafka` names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from model.kafka.table import parse_kafka
from model.problems import ConfigurationError
from model.toml_lines import TomlErrors
from queryable.client.protocol.errors import BadUse


def connection_settings(path: Path | None) -> Mapping[str, str]:
    """The table [kafka] of the file; empty if no file is given. Raises BadUse."""
    if path is None:
        return {}
    try:
        text = path.read_text()
        document = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise BadUse(f"Cannot read {path}: {error}.") from None
    if "kafka" not in document:
        raise BadUse(f"{path} has no table [kafka].")
    try:
        return parse_kafka(document["kafka"], TomlErrors(text, str(path)))
    except ConfigurationError as error:
        raise BadUse(f"{error}.") from None
