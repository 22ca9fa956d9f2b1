"""The schemas of the kinds that the manifests use.

kubernetes-1.34.json has them from the OpenAPI description of Kubernetes (Apache License 2.0),
without its texts. Unknown fields are errors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

_SCHEMAS = json.loads((Path(__file__).parent / "kubernetes-1.34.json").read_text())


def schema_errors(document: dict[str, Any]) -> list[str]:
    """What does not fit the schema of the object's kind. KeyError: no manifest used this kind."""
    schema = {**_SCHEMAS[document["kind"]], "$defs": _SCHEMAS["$defs"]}
    return [str(error) for error in jsonschema_rs.validator_for(schema).iter_errors(document)]
