"""/openapi.json: everything that can be asked of a deployment, made from its views.

A route that none of the views can answer is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from backend.api.openapi_keys import KeyedOperations
from backend.api.openapi_kiqr import kiqr_paths
from backend.api.openapi_own import own_paths
from backend.api.openapi_parts import CODES, HEADERS, RESPONSES, SCHEMAS, Json
from backend.api.openapi_views import EXAMPLE_KEYS
from backend.api.openapi_whole import WholeOperations
from model.views import View


def openapi(views: Iterable[View], version: str, max_key_bytes: int, kiqr: bool) -> Json:
    """The document (OpenAPI 3.1)."""
    # the first view of several has the examples
    ordered = sorted(views, key=lambda view: view.key not in EXAMPLE_KEYS or view.is_custom)
    paths = KeyedOperations(ordered, max_key_bytes).paths() | WholeOperations(ordered).paths()
    paths |= own_paths([view.name for view in ordered])
    if kiqr:
        paths |= kiqr_paths(ordered, EXAMPLE_KEYS)
    codes = "; ".join(f"{status}: {', '.join(codes)}" for status, codes in CODES.items())
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Queryable Topics",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Kafka topics as tables. Every answer has Topology-Epoch; an error is a "
            "problem document (RFC 9457) with a code; HEAD is allowed wherever GET is, but for "
            f"streams; other methods are 405 with Allow. Codes: {codes}.",
        },
        "servers": [{"url": "/"}],
        "paths": {path: item for path, item in paths.items() if item},
        "components": {"schemas": SCHEMAS, "headers": HEADERS, "responses": RESPONSES},
    }
