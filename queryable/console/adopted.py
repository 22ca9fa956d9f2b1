"""An entry of views.toml for a changelog: what was guessed, what is asked, how it is written."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from model.formats.codecs import KEY_CODECS, VALUE_CODECS
from model.kinds.registry import KINDS
from model.partitioner import PARTITIONERS
from model.times import parse_duration
from model.views import ANY_PARTITION, NEWEST, PARTIAL
from queryable.console.exits import say
from queryable.console.forgotten import Lost
from queryable.console.guessed_inner import not_served
from queryable.console.guessed_same_key import in_several
from queryable.console.guesses import Guess, Sampled, Sure
from queryable.console.guessing import guess

Ask = Callable[[str, str, Guess], str | None]
"""(topic, field, guess) -> what it shall be; None to leave it as guessed, and marked."""

_CHOICES: Mapping[str, Sequence[str]] = {
    "key": tuple(KEY_CODECS),
    "value": tuple(VALUE_CODECS),
    "store": tuple(KINDS),
    "partitioner": (*PARTITIONERS, ANY_PARTITION),
    "same_key": (PARTIAL, NEWEST),
}
_USUAL = {"store": "key-value", "partitioner": "murmur2"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def nobody(topic: str, field: str, guessed: Guess) -> None:
    """Nobody is there to be asked."""


def on_terminal(topic: str, field: str, guessed: Guess) -> str:
    """What the person at the terminal says; an empty answer is the guess."""
    choices = _CHOICES.get(field, ("a duration such as 10m", "- for none"))
    say(f"{topic}: {field}? {guessed.why} ({', '.join(choices)})")
    likely = guessed.value or "-"
    while True:
        # not typer's prompt: that writes to stdout, too
        print(f"{field} [{likely}]: ", end="", file=sys.stderr, flush=True)
        said = sys.stdin.readline().strip() or likely
        if not (wrong := _wrong(field, said)):
            return said
        say(wrong)


def _wrong(field: str, said: str) -> str:
    if field in _CHOICES:
        return "" if said in _CHOICES[field] else f"{said} is none of {', '.join(_CHOICES[field])}"
    if said == "-":
        return ""
    try:
        parse_duration(said)
    except ValueError as error:
        return str(error)
    return ""


def entry(
    store: str,
    topic: str,
    partitions: int,
    config: Mapping[str, str],
    records: Sequence[Sampled],
    ask: Ask,
    gone: Lost | None = None,
) -> str:
    """TOML; a comment alone where the changelog cannot be served. `gone`: what the broker deletes
    that the store keeps."""
    if reason := not_served(store, records):
        return f"# {topic}: not served, it is {reason}\n"
    if gone is not None and gone.everything:
        return f"# {topic}: not proposed, {gone.says}; nor can the kind of store be told\n"
    found = guess(partitions, config, records)
    if found["store"].sure is Sure.GUESS and (said := ask(topic, "store", found["store"])):
        # what a key is depends on it
        found = guess(partitions, config, records, Guess(said, Sure.SURE, "as was said"))
    store_kind = found["store"].value or ""
    if several := in_several(store_kind, [r for r in records if r.key is not None]):
        found["same_key"] = Guess(
            PARTIAL, Sure.LIKELY,
            f"{several}: each task has a result of its own, and a read of such a key is 503 "
            f'ambiguous-key; "{NEWEST}" if such keys have moved',
        )  # fmt: skip
    lines = [
        f"# {partitions} partitions, cleanup.policy {config.get('cleanup.policy', 'unknown')}, "
        f"{len(records)} records looked at",
        *([f"# wrong: {gone.says}"] if gone is not None else []),
        f"[views.{_table(store)}]",
        f"topic = {json.dumps(topic)}",
    ]
    for field, guessed in found.items():
        lines.extend(_field(topic, field, guessed, ask))
    return "\n".join(lines) + "\n"


def _field(topic: str, field: str, guessed: Guess, ask: Ask) -> list[str]:
    is_sure = guessed.sure is Sure.SURE
    said = None if is_sure or field == "store" else ask(topic, field, guessed)
    if said is not None:
        guessed = Guess(None if said == "-" else said, Sure.SURE)
    value, marked = guessed.value, guessed.sure is not Sure.SURE
    if value == "avro":
        # it needs [schemas], which only a person can name
        return [
            f'{field} = "bytes"  # TODO? {guessed.why}: {field} = "avro", '
            f'{field}_schema = "confluent", and a table [schemas]'
        ]
    if value is None:
        return [f"# TODO? {field}: {guessed.why}"] if marked else []
    line = f"{field} = {json.dumps(value)}"
    if marked:
        return [f"{line}  # TODO? {_HOW_SURE[guessed.sure]}: {guessed.why}"]
    return [] if _USUAL.get(field) == value else [line]


_HOW_SURE = {Sure.GUESS: "a guess", Sure.LIKELY: "likely"}


def _table(name: str) -> str:
    """A part of a table's name."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)
