"""Errors of the API, in the terms of the command line: commands and options, not paths and
parameters. No I/O."""

from __future__ import annotations

import re

from queryable.cli.config import BadSetting
from queryable.cli.declaration.query_options import QUERY_OPTIONS
from queryable.client.protocol.errors import QueryableError

_VIEW = r"(?P<view>[^\s/]+)"
# the text of a path ► the command
_COMMANDS = tuple(
    (re.compile(rf"(?P<lead>: |use |)(?:GET )?{path}(?=[\s.,;]|$)"), command)
    for path, command in (
        (rf"/views/{_VIEW}/keys/\{{key\}}/(?P<query>windows|sessions|versions)",
         "`queryable {query} {view} KEY`"),
        (rf"/views/{_VIEW}/(?P<query>windows|sessions|top|count|aggregate)",
         "`queryable {query} {view}`"),
        (rf"/views/{_VIEW}/keys", "`queryable scan {view}`"),
    )
)  # fmt: skip
_LISTS = re.compile(r"GET /views lists the views( and their paths)?")
_UNKNOWN_PATH = re.compile(r"^(Unknown path .*?\.) GET /views lists the views.*", re.DOTALL)
_OPTIONS = {option.name.rstrip("_"): option.flag for option in QUERY_OPTIONS}
_OPTIONS |= {"timeout": "--timeout", "token_file": "--token-file"}
_NAMES = "|".join(sorted(_OPTIONS, key=len, reverse=True))
# parameters at the start of a sentence about them, with or without the value
_WITH_VALUE = re.compile(rf"^({_NAMES})=(\S*?)(?=:| )")
_SUBJECT = re.compile(rf"^({_NAMES})(?= (?:is|names|and)\b|:)")
_OBJECT = re.compile(rf"(?<=omit )({_NAMES})\b|(?<=^--from and )(to)\b")
# an argument of the client, which cannot be a word of the sentence
_ARGUMENT = re.compile(
    rf"(?<![-\w'\"/.])({'|'.join(n for n in _OPTIONS if '_' in n)})\b(?!/|\.\w)"  # no path's part
)
_UNKNOWN = re.compile(r"Unknown parameter '(\w+)'\. Known parameters: ")
_PARAMETER_CODES = ("bad-parameter", "unknown-parameter", "repeated-parameter")


def error_text(error: QueryableError) -> str:
    """The message, and the code of the API unless nothing was sent."""
    code = f" [{error.code}]"
    text = str(error).removesuffix(code)
    if isinstance(error, BadSetting):
        return text
    if match := _UNKNOWN.match(text):
        return f"{_OPTIONS.get(match[1], match[1])} is not for this view or query.{code}"
    if error.code in (*_PARAMETER_CODES, "bad-use"):
        text = _with_options(text)
    text = _with_commands(_UNKNOWN_PATH.sub(r"\1", text))
    return text if error.code == "bad-use" else text + code


def _with_options(text: str) -> str:
    text = _WITH_VALUE.sub(lambda match: f"{_OPTIONS[match[1]]} {match[2]}", text)
    text = _SUBJECT.sub(lambda match: _OPTIONS[match[1]], text)
    text = _OBJECT.sub(lambda match: _OPTIONS[match[1] or match[2]], text)
    return _ARGUMENT.sub(lambda match: _OPTIONS[match[1]], text)


def _with_commands(text: str) -> str:
    for pattern, command in _COMMANDS:

        def used(match: re.Match[str], command: str = command) -> str:
            lead = ": use " if match["lead"] == ": " else match["lead"]
            return lead + command.format(**match.groupdict())

        text = pattern.sub(used, text)
    return _LISTS.sub("`queryable views` lists them", text)
