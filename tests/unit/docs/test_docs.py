"""The pages name every setting, problem code, metric, format and Make target."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from backend.http.access import Access
from backend.http.route_table import OTHER
from backend.http.router import Router
from backend.instance.settings import Settings
from local.settings import StackSettings
from model.formats.registry import FORMATS as ALL_FORMATS
from model.partitioner import PARTITIONERS
from model.views import View
from queryable.cli.app import app
from queryable.cli.declaration.command import name_of
from tests.support.docs_examples import (
    ALL_PAGES,
    BLOCK,
    COMMANDS_RUN_BY,
    ROOT,
    RUN_BY,
    examples_of,
)
from tests.support.in_process.examples import view
from tests.support.in_process.instance import context
from tests.unit.docs.problem_codes import codes_by_class

README = (ROOT / "README.md").read_text()
REFERENCE = ROOT / "docs" / "reference"
SETTINGS = (REFERENCE / "settings.md").read_text()
PROBLEMS = (REFERENCE / "problems.md").read_text()
FORMATS = (REFERENCE / "formats.md").read_text()
VIEWS = (REFERENCE / "views.md").read_text()
LINK = re.compile(r"\]\((?!http)([^)#]+)")


@pytest.mark.parametrize("model", [Settings, StackSettings])
def test_every_setting_is_documented_with_its_default_and_meaning(
    model: type[Settings] | type[StackSettings],
) -> None:
    for name, field in model.model_fields.items():
        [*rows] = re.findall(rf"^\| `QUERYABLE_{name.upper()}` \| .*$", SETTINGS, re.M)
        # in the row, or in a paragraph if it is too long for a row
        long = f"`QUERYABLE_{name.upper()}`: {field.description}" in " ".join(SETTINGS.split())
        assert long or any(field.description in row for row in rows), name
        if field.default not in ("", 0, None) and name != "views":
            assert any(f"`{field.default}`" in row for row in rows), name


def test_no_page_names_a_setting_that_does_not_exist() -> None:
    known = {
        f"QUERYABLE_{name.upper()}"
        for model in (Settings, StackSettings)
        for name in model.model_fields
    }
    client = "".join(path.read_text() for path in sorted((ROOT / "queryable").rglob("*.py")))
    for pattern, text in (
        (r"^env (QUERYABLE_\w+);", (ROOT / "nginx.conf").read_text()),
        (r"os\.environ\.get\(\s*\"(QUERYABLE_\w+)\"", client),
        (r"^export (QUERYABLE_\w+)", (ROOT / "Makefile").read_text()),
    ):
        found = set(re.findall(pattern, text, re.M))
        assert found, pattern
        known |= found
    for page in ALL_PAGES:
        named = set(re.findall(r"QUERYABLE_[A-Z_]+[A-Z]", page.read_text()))
        assert named <= known, page.name
    documented = set(re.findall(r"^\| `(QUERYABLE_[A-Z_]+)` \|", SETTINGS, re.M))
    assert documented == known


@pytest.mark.slow
def test_reference_has_every_problem_code() -> None:
    raised = set().union(*codes_by_class().values())
    assert len(raised) > 60
    of_proxy = re.findall(
        r"^    \[\"([a-z-]+)\"\] = \{ \d", (ROOT / "proxy/problem.lua").read_text(), re.MULTILINE
    )
    assert "no-topology" in of_proxy
    raised |= set(of_proxy)
    documented = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", PROBLEMS))
    assert raised - documented == set()


def test_formats_and_partitioners_are_documented() -> None:
    for name in ALL_FORMATS:
        assert f"`{name}`" in FORMATS, name
        assert f"`{name}`" in VIEWS, name
    for name in PARTITIONERS:
        assert f"`{name}`" in VIEWS, name


def test_the_readme_is_short_and_has_both_commands() -> None:
    assert len(README.split()) <= 700
    commands = [line.split("#")[0].strip() for line in README.splitlines()]
    assert {"make demo", "make test"} <= set(commands)


def test_pages_name_make_targets_that_exist() -> None:
    text = "".join(page.read_text() for page in ALL_PAGES)
    named = set(re.findall(r"`(?:[A-Z_]+=\S+ )?make ([a-z]+)`", text))
    named |= set(re.findall(r"^(?:[A-Z_]+=\S+ )*make ([a-z]+)\b", text, re.M))
    listed = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True
    ).stdout
    assert len(named) > 5
    for target in named - {"help"}:
        assert re.search(rf"\bmake {target}\b", listed), target


ALL_MARKDOWN = [
    *sorted(ROOT.glob("*.md")),
    *(page for name in ("docs", "proxy", "tests") for page in sorted((ROOT / name).rglob("*.md"))),
]


def test_lines_of_markdown_fit_into_a_terminal() -> None:
    assert [
        f"{page.relative_to(ROOT)}:{number}"
        for page in ALL_MARKDOWN
        for number, line in enumerate(page.read_text().split("\n"), 1)
        if len(line) > 120
    ] == []


def test_links_point_to_files() -> None:
    assert [
        f"{page.relative_to(ROOT)}: {target}"
        for page in ALL_PAGES
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ] == []


# these ask first, and are refused in a script without --yes
ASKS_FIRST = re.compile(r"^(?:\$ )?queryable (?:drop\b|rebuild\b|pipeline \S+ rebuild\b).*$", re.M)


def test_a_page_with_commands_that_ask_first_names_the_answer() -> None:
    for page in ALL_PAGES:
        text = page.read_text()
        blocks = [block for kind, block in BLOCK.findall(text) if kind in ("sh", "console")]
        assert "--yes" in text or ASKS_FIRST.findall("\n".join(blocks)) == [], page


def test_paths_in_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([a-z_]+/[\w./]*|[\w.]+\.(?:conf|md|toml|yml))`", text))
    named.discard("site/")  # `make docs` creates it
    assert len(named) > 40
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_tests_named_in_consistency_exist() -> None:
    named = set(re.findall(r"`(test_[a-z_0-9]+)`", (ROOT / "docs" / "consistency.md").read_text()))
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 15
    assert named <= set(re.findall(r"def (test_[a-z_0-9]+)\(", tests))


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_are_examples_that_are_run(page: Path) -> None:
    """`examples_of` finds them; tests/system/queries/test_examples.py runs them."""
    text = page.read_text()
    blocks = BLOCK.findall(text)
    assert len(re.findall(r"^ *```", text, re.M)) == 2 * len(blocks), "a block is not closed"
    run = {
        block
        for file, block in COMMANDS_RUN_BY.findall(text)
        if page.name in (ROOT / file).read_text()
    }
    for kind, block in blocks:
        assert kind, f"a block without a language: {block}"
        assert (
            kind == "console" or block in run or not re.search(r"curl|^\$ queryable", block, re.M)
        ), block
        assert kind != "python" or block.startswith(">>> "), f"not run: {block}"
    for file, _ in RUN_BY.findall(text):
        test = (ROOT / file).read_text()
        is_named = f'docs" / "{page.name}' in test or f'"{page.stem}"' in test
        assert is_named, f"{file} runs no examples"
    for example in examples_of(page):
        assert "curl" in example.command or example.is_of_console
        assert example.shown, f"{example.command}: no output is shown"


# Commands that start the stack, inspect brokers or write keys. Other tests run them
# (tests/system/queryable/cli, tests/system/streams).
ELSEWHERE = {"up", "down", "demo", "bench", "adopt", "check", "token", "pipeline", "init", "serve"}
ELSEWHERE |= {"drain", "undrain", "rebuild"}  # they change the placement
ELSEWHERE |= {"derive"}  # tests/unit/queryable/cli/commands/test_derive.py
ELSEWHERE |= {"sources"}  # tests/unit/queryable/cli/start/test_source_files.py
ELSEWHERE |= {"mcp"}  # tests/system/queryable/cli/test_mcp.py
ELSEWHERE |= {"describe", "queries"}  # their output has times, rates and sizes
# they need two deployments: tests/system/cluster/test_deployments.py
ELSEWHERE |= {"deployments", "switch-deployment", "rollback-deployment"}


def test_every_command_of_the_console_has_a_section_with_an_example() -> None:
    names = (
        "console.md", "console-operations.md", "versions.md", "deployments.md",
        "spark/operations.md",
    )  # fmt: skip
    pages = [ROOT / "docs" / name for name in names]
    asked = {example.command.split()[1] for page in pages for example in examples_of(page)}
    headings = [
        line for page in pages for line in page.read_text().split("\n") if line[:3] == "## "
    ]
    for command in app.registered_commands:
        name = name_of(command)
        assert name in asked | ELSEWHERE, name
        assert any(re.search(rf"\b{name}\b", heading) for heading in headings), name


def test_every_request_is_in_the_reference() -> None:
    lines = (ROOT / "docs/reference/requests.md").read_text().splitlines()
    routes = Router(context([view(store="window")]), None).routes  # type: ignore[arg-type]
    for route in routes:
        if route.is_internal or route.pattern == OTHER or "{rest}" in route.pattern:
            continue
        if route.pattern.startswith("/api/"):  # docs/kiqr.md
            continue
        folder, _, last = route.pattern.rstrip("/").rpartition("/")
        assert any(f"{folder}/" in line and f"/{last}" in line for line in lines), route.pattern


def test_the_fields_that_are_no_part_of_the_definition_are_documented() -> None:
    text = (ROOT / "docs/reference/views.md").read_text()
    [sentence] = re.findall(r"\nThe fields (.*?) can\s+change\s+with a restart", text, re.S)
    changeable = {field.name for field in fields(View) if not field.compare} - {"schemas"}
    documented = set(re.findall(r"`(\w+)`", sentence))
    names = {"derivation": "derive", "meaning": "description"}
    assert documented == {names.get(name, name) for name in changeable}


def test_every_kind_of_query_has_a_page_with_examples() -> None:
    folder = ROOT / "docs" / "queries"
    pages = {page for page in folder.glob("*.md") if page.name != "README.md"}
    listed = {folder / name for name in LINK.findall((folder / "README.md").read_text())}
    assert len(pages) >= 13
    assert pages <= listed
    asked = ""
    for page in pages:
        assert examples_of(page), page.name
        asked += "\n".join(example.command for example in examples_of(page)) + "\n"
    # of views, and below keys
    routes = Router(context([]), None).routes  # type: ignore[arg-type]
    resources = {
        route.pattern.rpartition("/")[2]
        for route in routes
        if not (route.is_internal or route.is_page or route.access is Access.ADMIN)
        if not route.pattern.startswith("/admin/")
    }
    assert "/by/" in asked
    for resource in resources - {"{key}", "{rest}", "{value}"}:
        assert re.search(rf"/{resource}\b", asked), resource


def test_the_pages_that_other_files_name_exist() -> None:
    product = ("backend", "deploy", "docker", "local", "model", "proxy", "queryable", "spark")
    files = [path for folder in product for path in (ROOT / folder).rglob("*")]
    files += [path for path in ROOT.iterdir() if path.suffix in (".md", ".toml", ".yml", ".conf")]
    named = {
        page
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
        for page in re.findall(rb"(?<![\w/.-])docs/[\w/-]+\.md", path.read_bytes())
    }
    assert len(named) > 30
    assert [page for page in named if not (ROOT / page.decode()).exists()] == []
