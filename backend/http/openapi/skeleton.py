"""Reads the YAML files: `base.yaml`, and the paths and parts of all others."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from model.formats.registry import FORMATS

Json = dict[str, Any]


@cache
def skeleton() -> Json:
    """The files as one document, with all formats in `x-formats`. Shared: do not change it."""
    # the loader in C is ten times as fast; not every build of PyYAML has it
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    of_formats = {name: f.openapi.entry() for name, f in FORMATS.items()}
    whole: Json = {"paths": {}, "x-parts": {}, "x-formats": of_formats}
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".yaml"):
            continue
        with file.open(encoding="utf-8") as stream:  # its name is in the errors of the loader
            fragment: Json = yaml.load(stream, loader)
        for section in ("paths", "x-parts"):
            entries = fragment.pop(section, {})
            if repeated := whole[section].keys() & entries.keys():
                raise ValueError(f"{file.name}: {section} {sorted(repeated)} are in two files")
            whole[section] |= entries
        whole |= fragment
    return whole


def example_keys() -> Json:
    """Key format -> example, as in a URL. With a schema there is none: it would depend on it."""
    formats = skeleton()["x-formats"]
    return {name: entry["example"] for name, entry in formats.items() if "example" in entry}


def problem_codes() -> dict[int, list[str]]:
    """Status -> the codes that its problem documents can have."""
    responses = skeleton()["components"]["responses"]
    return {int(status): r["x-codes"] for status, r in responses.items() if "x-codes" in r}
