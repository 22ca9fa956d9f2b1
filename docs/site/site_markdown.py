"""Adapts pages that are written for GitHub to the site: their links and their lists.

Pure functions. Paths are relative to the repository, with slashes. A `uri` is the path of a page in
the source of the site, relative to `docs/`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

FENCE = re.compile(r"^\s*```")
_ITEM = re.compile(r"^( *)((?:[-*]|\d+\.) +)(?=\S)")
_INLINE = re.compile(r"(?P<image>!?)\[(?P<text>[^]]*)\]\((?P<target>[^)\s]+)\)")
_DEFINITION = re.compile(r"^(?P<label>\[[^]]+\]: )(?P<target>\S+)$", re.M)
_ELSEWHERE = re.compile(r"[a-z]+:|#")


def with_links(text: str, source: str, uri: str, uris: Mapping[str, str]) -> str:
    """The text of the file `source`, with links that work on the page `uri`.

    `uris` maps files outside `docs/` that are in the site to their uris. A link to a file that is
    not in the site is replaced by its text.
    """

    def inline(found: re.Match[str]) -> str:
        target = resolve(found["target"])
        return (
            found["text"]
            if target is None
            else f"{found['image']}[{found['text']}]({target})"
        )  # fmt: skip

    def definition(found: re.Match[str]) -> str:
        return f"{found['label']}{resolve(found['target']) or '#'}"

    def resolve(target: str) -> str | None:
        if _ELSEWHERE.match(target):
            return target
        path, hash_, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if path in uris:
            path = f"docs/{uris[path]}"
        if not path.startswith("docs/"):
            return None
        here = posixpath.dirname(f"docs/{uri}")
        return f"{posixpath.relpath(path, here)}{hash_}{anchor}"

    parts = []
    for is_code, lines in _blocks(text):
        if not is_code:
            lines = _DEFINITION.sub(definition, _INLINE.sub(inline, lines))
        parts.append(lines)
    return "\n".join(parts)


def _blocks(text: str) -> list[tuple[bool, str]]:
    """Runs of lines, and whether they are a fenced block of code."""
    blocks: list[tuple[bool, list[str]]] = []
    in_code = False
    for line in text.split("\n"):
        is_fence = FENCE.match(line) is not None
        if is_fence and not in_code:
            blocks.append((True, [line]))
        elif is_fence or (blocks and blocks[-1][0] == in_code):
            blocks[-1][1].append(line)
        else:
            blocks.append((in_code, [line]))
        in_code ^= is_fence
    return [(is_code, "\n".join(lines)) for is_code, lines in blocks]


def with_lists(text: str) -> str:
    """The text with lists that Python-Markdown understands.

    It needs four columns of indentation for the content of an item, where CommonMark (and GitHub)
    need the width of the marker; and a blank line between a paragraph and a list.
    """
    lines: list[str] = []
    margins: list[int] = []  # of the items that are open: the column where what they hold begins
    in_code = False
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if line.strip() and not in_code:
            while margins and indent < margins[-1]:
                margins.pop()
        if not line.strip():
            lines.append("")
            continue
        item = None if in_code else _ITEM.match(line)
        if item and not margins and lines and _is_paragraph(lines[-1]):
            lines.append("")
        column = margins[-1] if margins else 0
        lines.append(" " * (4 * len(margins) + indent - column) + line[indent:])
        if item:
            margins.append(len(item[0]))
        if FENCE.match(line):
            in_code = not in_code
    return "\n".join(lines)


def _is_paragraph(line: str) -> bool:
    """Whether a list in the next line would be read as a part of this line's paragraph."""
    return bool(line) and not line.startswith((" ", "|", "#")) and not _ITEM.match(line)
