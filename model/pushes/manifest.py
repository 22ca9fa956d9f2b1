"""The manifest of a push: its files, what they contain, and where the live records continue.

    {
      "format": 1,
      "push": "20260102T030405.678Z-1f0c…",           the id of the push, and the name of its folder
      "view": "orders", "topic": "orders", "topic_id": "…", "partitions": 6,
      "layout": {"key": "string", "value": "json", …}  what the stored bytes depend on
      "pinned_at": 1767323045678,                      ms: when the end offsets were read
      "offsets": {"orders": {"0": 17, …}, …},          topic ► partition ► end offset
      "created_at": 1767323099000, "job": "app-…", "entries": 1000000,
      "files": [{"partition": 0, "name": "….sst", "size": 17, "sha256": "…", "entries": 5,
                 "first": "AQ==", "last": "AQ=="}, …]  stored keys, base64
    }

Instances do not trust it: `Manifest.decode` checks every field, and `Manifest.mismatch` compares it
with the view.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from model.formats.registry import format_of
from model.views import View

CURRENT = "current.json"
MANIFEST = "manifest.json"
FORMAT = 1

MAX_CURRENT_BYTES = 10_000
MAX_MANIFEST_BYTES = 64 << 20
MAX_FILES = 500
"""The maximum number of files of one partition. More files would make each read slow until RocksDB
has merged them."""
MAX_FILE_BYTES = 1 << 40

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.sst", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MAX = (1 << 63) - 1


class ManifestError(ValueError):
    """A file of a push is malformed, or does not fit the view. The text is for people."""


@dataclass(frozen=True, slots=True)
class PushFile:
    """A file with sorted entries of one partition."""

    partition: int
    name: str
    size: int  # bytes
    sha256: str
    entries: int
    first: bytes  # stored key
    last: bytes


@dataclass(frozen=True, slots=True)
class Pinned:
    """The end offsets of topics before the job read its data. The first is the view's topic."""

    view: str
    topic: str
    topic_id: str
    at_ms: int  # wall clock
    offsets: Mapping[str, Mapping[int, int]]  # topic -> partition -> offset

    @property
    def partitions(self) -> int:
        """The number of partitions of the view's topic."""
        return len(self.offsets[self.topic])

    def encode(self) -> str:
        return orjson.dumps(
            {
                "view": self.view,
                "topic": self.topic,
                "topic_id": self.topic_id,
                "pinned_at": self.at_ms,
                "offsets": _named(self.offsets),
            }
        ).decode()

    @staticmethod
    def decode(text: str | bytes) -> Pinned:
        """The inverse of `encode`. Raises ManifestError."""
        return _pinned(_Fields(_document(text, "the pinned offsets")))


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one push."""

    push: str
    pinned: Pinned
    layout: Mapping[str, Any]
    created_at_ms: int  # wall clock
    job: str
    files: tuple[PushFile, ...]

    @property
    def entries(self) -> int:
        return sum(file.entries for file in self.files)

    def files_of(self, partition: int) -> list[PushFile]:
        return [file for file in self.files if file.partition == partition]

    def position(self, partition: int) -> int:
        """The offset at which the live records of a partition continue."""
        return self.pinned.offsets[self.pinned.topic][partition]

    def mismatch(self, view: View) -> str | None:
        """Why instances cannot use this push for the view; None if they can."""
        if self.pinned.view != view.name:
            return f"it is for view {self.pinned.view}"
        if self.pinned.topic != view.topic:
            return f"it is for topic {self.pinned.topic}, and the view's topic is {view.topic}"
        expected = layout_of(view)
        for name in sorted(expected.keys() | self.layout.keys()):
            if expected.get(name) != self.layout.get(name):
                return (
                    f"its {name:.100} is {self.layout.get(name)!r:.100}, and the view has "
                    f"{expected.get(name)!r}"
                )
        return None

    def encode(self) -> bytes:
        pinned = self.pinned
        return orjson.dumps(
            {
                "format": FORMAT,
                "push": self.push,
                "view": pinned.view,
                "topic": pinned.topic,
                "topic_id": pinned.topic_id,
                "partitions": pinned.partitions,
                "layout": dict(self.layout),
                "pinned_at": pinned.at_ms,
                "offsets": _named(pinned.offsets),
                "created_at": self.created_at_ms,
                "job": self.job,
                "entries": self.entries,
                "files": [
                    {
                        "partition": file.partition,
                        "name": file.name,
                        "size": file.size,
                        "sha256": file.sha256,
                        "entries": file.entries,
                        "first": b64encode(file.first).decode(),
                        "last": b64encode(file.last).decode(),
                    }
                    for file in self.files
                ],
            },
            option=orjson.OPT_INDENT_2,
        )

    @staticmethod
    def decode(raw: bytes) -> Manifest:
        """The inverse of `encode`. Raises ManifestError."""
        if len(raw) > MAX_MANIFEST_BYTES:
            raise ManifestError(f"{MANIFEST} has more than {MAX_MANIFEST_BYTES} bytes")
        fields = _Fields(_document(raw, MANIFEST))
        version = fields.number("format")
        if version != FORMAT:
            raise ManifestError(f"its format is {version}, this version reads {FORMAT}")
        pinned = _pinned(fields)
        if fields.number("partitions") != pinned.partitions:
            raise ManifestError("partitions is not the number of offsets of the view's topic")
        files = tuple(_file(_Fields(file), pinned.partitions) for file in fields.get("files", list))
        names = Counter(file.name for file in files)
        if len(names) != len(files):
            raise ManifestError(f"the file {names.most_common(1)[0][0]} is listed twice")
        counts = Counter(file.partition for file in files)
        for partition, count in counts.items():
            if count > MAX_FILES:
                raise ManifestError(
                    f"partition {partition} has {count} files; at most {MAX_FILES} are allowed"
                )
        manifest = Manifest(
            push=check_id(fields.text("push")),
            pinned=pinned,
            layout=fields.get("layout", dict),
            created_at_ms=fields.number("created_at"),
            job=fields.text("job"),
            files=files,
        )
        if fields.number("entries") != manifest.entries:
            raise ManifestError("entries is not the sum of the files' entries")
        return manifest


def layout_of(view: View) -> dict[str, Any]:
    """The properties of a view on which the stored bytes of its entries depend."""
    return {
        "store": view.store,
        "key": view.key,
        "value": view.value,
        "partitioner": view.partitioner,
        "window_key": view.window_key,
        "has_retention": view.retention is not None,
        "key_schema": _fingerprint(view.key, view.key_schema),
        "value_schema": _fingerprint(view.value, view.value_schema),
    }


def push_url(push: str, views_file: Path) -> str:
    """The folder of a view's pushes as a URL or an absolute path. `push`: the value in views.toml;
    a relative path is relative to that file."""
    return push if "://" in push else str(views_file.absolute().parent / push)


def encode_current(push: str) -> bytes:
    """The content of `CURRENT`."""
    return orjson.dumps({"push": push})


def decode_current(raw: bytes) -> str:
    """The id of the newest push. Raises ManifestError."""
    if len(raw) > MAX_CURRENT_BYTES:
        raise ManifestError(f"{CURRENT} has more than {MAX_CURRENT_BYTES} bytes")
    return check_id(_Fields(_document(raw, CURRENT)).text("push"))


def check_id(push: str) -> str:
    """Return the id of a push if it is valid: it is also the name of a folder. Raises ManifestError
    otherwise."""
    if not _ID.fullmatch(push):
        raise ManifestError(f"{push[:100]!r} is not the id of a push")
    return push


def _fingerprint(format_name: str, schema: str | None) -> str | None:
    return None if schema is None else format_of(format_name).fingerprint(schema)


def _named(offsets: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    return {
        topic: {str(partition): offset for partition, offset in sorted(by_partition.items())}
        for topic, by_partition in offsets.items()
    }


def _document(text: str | bytes, source: str) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as e:
        raise ManifestError(f"{source}: not JSON: {e}") from None
    if not isinstance(document, dict):
        raise ManifestError(f"{source}: not a JSON object")
    return document


class _Fields:
    """Reads the fields of a JSON object. Methods raise ManifestError."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise ManifestError("a file is not a JSON object")
        self._document = document

    def get(self, name: str, type_: type) -> Any:
        value = self._document.get(name)
        if type(value) is not type_:
            raise ManifestError(f"{name} is missing or not of type {type_.__name__}")
        return value

    def text(self, name: str) -> str:
        text: str = self.get(name, str)
        if len(text) > 1000:
            raise ManifestError(f"{name} is too long")
        return text

    def number(self, name: str) -> int:
        return _number(name, self.get(name, int))


def _number(name: str, value: Any, maximum: int = _MAX) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise ManifestError(f"{name} is {value!r:.100}, not a number from 0 to {maximum}")
    return value


def _pinned(fields: _Fields) -> Pinned:
    offsets: dict[str, dict[int, int]] = {}
    for topic, by_partition in fields.get("offsets", dict).items():
        if not isinstance(by_partition, dict) or not by_partition:
            raise ManifestError(f"the offsets of topic {topic:.300} are not a JSON object")
        numbered = [by_partition.get(str(partition)) for partition in range(len(by_partition))]
        offsets[topic] = {
            partition: _number(f"the offset of {topic:.300}-{partition}", offset)
            for partition, offset in enumerate(numbered)
        }
    topic = fields.text("topic")
    if topic not in offsets:
        raise ManifestError(f"there are no offsets of the view's topic {topic}")
    return Pinned(
        fields.text("view"), topic, fields.text("topic_id"), fields.number("pinned_at"), offsets
    )


def _file(fields: _Fields, partitions: int) -> PushFile:
    name, sha256 = fields.text("name"), fields.text("sha256")
    if not _NAME.fullmatch(name):
        raise ManifestError(f"{name[:100]!r} is not the name of a file of a push")
    if not _SHA256.fullmatch(sha256):
        raise ManifestError(f"{name}: sha256 is not 64 hexadecimal digits")
    try:
        first, last = (
            b64decode(fields.get(field, str), validate=True) for field in ("first", "last")
        )
    except ValueError:
        raise ManifestError(f"{name}: first or last is not base64") from None
    return PushFile(
        _number("partition", fields.get("partition", int), partitions - 1),
        name,
        _number("size", fields.get("size", int), MAX_FILE_BYTES),
        sha256,
        fields.number("entries"),
        first,
        last,
    )
