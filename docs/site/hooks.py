"""What MkDocs calls while it builds the site (mkdocs.yml): pages from outside `docs/`, and fixes of
the others' Markdown."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from pathlib import Path
from typing import Any

import openapi_page
import site_markdown
from mkdocs.structure.files import File, Files

from backend.http.openapi.build import openapi
from backend.instance.constants import Constants
from backend.instance.settings import read_views

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "queries" / "example" / "views.toml"
# file of the repository -> page
OUTSIDE = {
    "README.md": "index.md",
    "proxy/README.md": "proxy.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
SOURCES = {uri: source for source, uri in OUTSIDE.items()}
API = "reference/api.md"


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are not in `docs/`."""
    for source, uri in OUTSIDE.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text()))
    files.append(File.generated(config, API, content=api_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page's text as the site needs it."""
    uri = page.file.src_uri
    source = SOURCES.get(uri, f"docs/{uri}")
    return site_markdown.with_lists(site_markdown.with_links(markdown, source, uri, OUTSIDE))


def api_page() -> str:
    """The API of the views of the examples, without their short paths."""
    views = [dataclasses.replace(view, path=None) for view in read_views(EXAMPLE).views]
    document = openapi(views, version("queryable-topics"), Constants().max_key_bytes)
    return openapi_page.page(document)
