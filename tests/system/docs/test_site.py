"""The site: its navigation, the adaptation of its pages, and (if MkDocs is installed) its build."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import site_markdown
from openapi_page import page

from backend.http.openapi.build import openapi
from backend.instance.settings import read_views
from tests.support.docs_examples import ROOT

CONFIG = (ROOT / "mkdocs.yml").read_text()
HOOKS = (ROOT / "docs" / "site" / "hooks.py").read_text()
NAV = re.findall(r"(\S+\.md)$", CONFIG.partition("\nnav:")[2], re.M)
# pages from outside docs/, which the hooks add
GENERATED = set(re.findall(r'"\S+\.md": "(\S+\.md)"', HOOKS)) | {"reference/api.md"}


def test_each_page_is_in_the_navigation_once() -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 30
    assert len(GENERATED) == 5
    assert sorted(NAV) == sorted(pages | GENERATED)


def test_links_point_to_pages_of_the_site() -> None:
    text = "[a](../proxy/README.md#running-it) [b](queries/top.md) [c](../Makefile) [d](#e)"
    found = site_markdown.with_links(
        text, "docs/architecture.md", "architecture.md", {"proxy/README.md": "proxy.md"}
    )
    assert found == "[a](proxy.md#running-it) [b](queries/top.md) c [d](#e)"


def test_links_of_a_moved_page_are_relative_to_its_new_path() -> None:
    text = "![picture](docs/images/a.svg) [x](docs/reference/limits.md)\n\n[y]: docs/spark.md#a"
    assert site_markdown.with_links(text, "README.md", "index.md", {}) == (
        "![picture](images/a.svg) [x](reference/limits.md)\n\n[y]: spark.md#a"
    )
    assert site_markdown.with_links(text, "README.md", "a/b.md", {}).startswith(
        "![picture](../images/a.svg) [x](../reference/limits.md)"
    )


def test_links_in_code_are_unchanged() -> None:
    text = "```sh\n[a](../Makefile)\n```\n[a](../Makefile)"
    assert site_markdown.with_links(text, "docs/a.md", "a.md", {}) == (
        "```sh\n[a](../Makefile)\n```\na"
    )


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("1. a\n   b\n\n   - c\n     d", "1. a\n    b\n\n    - c\n        d"),
        ("- a\n\n  ```sh\n  x\n  ```\nz", "- a\n\n    ```sh\n    x\n    ```\nz"),
        ("10. a\n\n    b", "10. a\n\n    b"),
        ("a:\n- b\n- c", "a:\n\n- b\n- c"),
        ("| a |\n|---|\n| - b |", "| a |\n|---|\n| - b |"),
        ("```\na:\n- b\n```", "```\na:\n- b\n```"),
        ("- a\n\nb\n\n    c", "- a\n\nb\n\n    c"),
    ],
)  # fmt: skip
def test_lists_are_converted_for_python_markdown(written: str, wanted: str) -> None:
    assert site_markdown.with_lists(written) == wanted


def test_the_api_page_has_every_operation_and_parameter() -> None:
    views = read_views(ROOT / "docs" / "queries" / "example" / "views.toml").views
    document = openapi(views, "1", 8192)
    text = page(document)
    for path, item in document["paths"].items():
        [section] = re.findall(
            rf"^### [A-Z, ]+ `{re.escape(path)}`\n(.*?)(?=^##|\Z)", text, re.M | re.S
        )
        for method, operation in item.items():
            assert re.search(rf"^### .*\b{method.upper()}\b.* `{re.escape(path)}`$", text, re.M)
            for parameter in operation.get("parameters", ()):
                assert f"| `{parameter['name']}` |" in section
            for status in operation["responses"]:
                assert f"| {status} |" in section
    widths = [row.count("|") - row.count("\\|") for row in text.split("\n") if row.startswith("|")]
    assert min(widths) >= 3


def test_an_unresolved_reference_is_an_error() -> None:
    response = {"$ref": "#/components/responses/404"}
    operation = {"get": {"responses": {"404": response}}}
    with pytest.raises(ValueError, match="components/responses/404"):
        page({"paths": {"/a": operation}, "components": {"responses": {}}})


class Requests(HTMLParser):
    """The URLs that a browser fetches when it loads a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.classes: set[str] = set()
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.classes |= set(given.get("class", "").split())
        self._in_style = tag == "style"
        self.urls += re.findall(r"url\(['\"]?([^'\")]+)", given.get("style", ""))
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.urls.append(given.get("href", ""))
        elif tag != "a":
            self.urls += [given[name] for name in ("src", "data", "poster") if name in given]
            self.urls += [each.split()[0] for each in given.get("srcset", "").split(",") if each]

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.urls += re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")]+)", data)


def is_external(url: str) -> bool:
    return re.match(r"(?:[a-z]+:)?//", url) is not None


def test_urls_that_a_page_fetches_are_found() -> None:
    found = Requests(
        '<link rel="preconnect" href="https://a"><link rel="canonical" href="https://b">'
        '<script src="//c/d.js"></script><img src="e.png" srcset="https://f 2x">'
        '<style>@import "https://g"; a { b: url(https://h) }</style><a href="https://i">'
    )
    assert list(filter(is_external, found.urls)) == [
        "https://a", "//c/d.js", "https://f", "https://g", "https://h",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="`make docs` installs MkDocs and runs this test")
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", built],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return built


def test_the_site_has_each_page(site: Path) -> None:
    for uri in NAV:
        name = re.sub(r"README\.md$", "index.md", uri)
        text = (site / name).with_suffix(".html").read_text()
        assert re.search(r"<h1[ >]", text), uri


def test_the_site_works_without_the_internet(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(NAV)
    for path in pages:
        requests = Requests(path.read_text())
        assert len(requests.urls) > 3
        assert not list(filter(is_external, requests.urls)), path.name
        # Material fetches the library for these diagrams
        assert not {"mermaid", "language-mermaid"} & requests.classes, path.name
        for url in requests.urls:
            if not url.startswith("data:"):
                # 404.html has absolute links, because it is served for any path
                folder = site if url.startswith("/") else path.parent
                assert (folder / url.partition("?")[0].lstrip("/")).exists(), url
    stylesheets = list(site.rglob("*.css"))
    assert stylesheets
    for path in stylesheets:
        fetched = re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")]+)", path.read_text())
        assert not list(filter(is_external, fetched)), path.name


def test_the_site_can_be_searched(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    for word in ("mis-partitioned", "QUERYABLE_STANDBY_REPLICAS", "/views/{view}/batch"):
        assert word in index, word
