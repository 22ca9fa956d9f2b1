"""The changelog can be read in a few minutes: the history of the repository has the rest."""

from __future__ import annotations

import re

import pytest

from local.settings import REPOSITORY

SECTIONS = re.findall(
    r"^## (\S+).*?\n(.*?)(?=^## |\Z)",
    (REPOSITORY / "CHANGELOG.md").read_text(),
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize(("version", "text"), SECTIONS, ids=[version for version, _ in SECTIONS])
def test_a_section_is_short_and_begins_with_the_actions(version: str, text: str) -> None:
    assert len(text.split()) <= (800 if version == "0.1.0" else 400)
    titles = re.findall(r"^### (.*)", text, re.MULTILINE)
    assert "Actions needed" not in titles[1:]


def test_there_are_sections() -> None:
    assert SECTIONS
