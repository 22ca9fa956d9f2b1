"""How to connect to Kafka: the table [kafka] of the file that `--kafka` names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from queryable.client.protocol.errors import BadUse


def connection_settings(path: Path | None) -> Mapping[str, str]:
    """The table [kafka] of the file. Raises BadUse."""
    if path is None:
        return {}
    try:
        table = tomllib.loads(path.read_text()).get("kafka", {})
    except (OSError, ValueError) as error:
        raise BadUse(f"Cannot read {path}: {error}.") from None
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in table.items()
    }
