"""The admin page: one document, which has no data.

It contains its style and its scripts, because a browser sends no token with a request for a file
that a page names, and only `/health` is open. The document is the same with and without a token.
The policy allows only this style and this script, by their hashes, and requests to this instance.
So a key or value that contains markup has no effect, even if it is not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from backend.wire.answer import Answer, Header
from model.problems import Unauthenticated

PATH = "/admin"

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function (\w+))", re.MULTILINE)


class AdminPage(NamedTuple):
    """The document and its headers."""

    text: bytes
    headers: tuple[Header, ...]


@cache
def admin_page() -> AdminPage:
    """The page, for everyone."""
    style = _file("vendor/uplot.min.css") + _file("static/admin.css")
    script = _file("vendor/uplot.min.js") + _script("admin")
    icon = base64.b64encode(_file("static/icon.svg").encode()).decode()
    text = _file("templates/admin.html")
    for name, part in (("style", style), ("script", script), ("icon", icon)):
        text = text.replace(f"{{{{ {name} }}}}", part)
    policy = "; ".join((
        "default-src 'none'", f"script-src {_hash(script)}", f"style-src {_hash(style)}",
        "img-src data:", "connect-src 'self'", "form-action 'none'", "base-uri 'none'",
        "frame-ancestors 'none'",
    ))  # fmt: skip
    headers = (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
    )
    return AdminPage(text.encode(), headers)


def sign_in(accept: bytes, problem: Unauthenticated) -> Answer | None:
    """The page for a browser without a valid token; None for other clients. `accept`: the header of
    the request."""
    if b"text/html" not in accept:
        return None
    text, headers = admin_page()
    challenge = [header for header in problem.headers() if header[0] == b"www-authenticate"]
    return Answer(problem.status, [*headers, *challenge], text)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression of a style or script (CSP 3, 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _script(entry: str) -> str:
    """The modules as one script, because a module in a document cannot be imported: each is a
    function that returns what it exports, after those that it imports from."""
    modules: dict[str, str] = {}

    def add(name: str) -> None:
        if name in modules:
            return
        text = _file(f"static/{name}.js")
        for imported in _IMPORT.findall(text):
            add(imported[1])
        text = _IMPORT.sub(r"const { \1 } = \2_js;", text)
        exported = ", ".join(_EXPORT.findall(text))
        text = _EXPORT.sub("", text)
        modules[name] = f"const {name}_js = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();\n"

    add(entry)
    return "".join(modules.values())
