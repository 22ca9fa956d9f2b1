"""Message types from descriptors, and messages as JSON by protobuf's JSON mapping.

https://protobuf.dev/programming-guides/json/: names in lowerCamelCase, 64-bit integers as strings.
Fields without presence are always written, so that a zero is a zero and not a missing field.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar

import orjson
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass

from model.formats.format import Origin, References
from model.formats.protobuf.bounds import Bounds
from model.formats.schema_files.origins import origin_from, origin_text

_MAX_INDEXES = 100  # levels of nested message types
_WELL_KNOWN = "google/protobuf/"
"""The folder of the files that come with the package protobuf."""

_WELL_KNOWN_FILES = {
    f"{_WELL_KNOWN}{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct",
        "timestamp", "type", "wrappers",
    )
}  # fmt: skip


class MessageType:
    """One message type. Methods raise ValueError for invalid input."""

    def __init__(self, descriptor: Any, pool: Any, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.descriptor = descriptor
        self._class = GetMessageClass(descriptor)
        self._pool = pool
        self._bounds = Bounds(pool)

    def check(self, raw: bytes) -> None:
        """Raises ValueError if `to_json` would fail or be too large."""
        self.document(self.parse(raw))

    def to_json(self, raw: bytes) -> bytes:
        return self._render(self.parse(raw))

    def document(self, message: Any) -> bytes:
        """The JSON of a message of this type, or of a type that it uses. Raises ValueError if it is
        beyond the bounds."""
        self._bounds.check(message)
        return self._render(message)

    def from_json(self, value: Any) -> bytes:
        """The message of a parsed JSON document, with its fields in the order of their numbers."""
        name = self._class.DESCRIPTOR.full_name
        # json_format accepts an empty array as a message. But the JSON of a message is an object,
        # except for some of protobuf's own types.
        if not isinstance(value, dict) and not name.startswith("google.protobuf."):
            raise ValueError(f"not a {name}: it is a JSON object")
        try:
            message = ParseDict(value, self._class(), descriptor_pool=self._pool)
            raw: bytes = message.SerializeToString(deterministic=True)
        except Exception as e:  # ParseError, EncodeError, RecursionError, …
            raise ValueError(f"not a {name}: {e}") from None
        return raw

    def from_fields(self, fields: dict[str, Any]) -> bytes:
        """The message with these fields, as the constructors of the package protobuf take them."""
        try:
            raw: bytes = self._class(**fields).SerializeToString(deterministic=True)
        except Exception as e:  # TypeError, ValueError, EncodeError, …
            raise ValueError(f"not a {self.descriptor.full_name}: {e}") from None
        return raw

    def parse(self, raw: bytes) -> Any:
        """The message, as an object of the package protobuf."""
        message = self._class()
        try:
            message.ParseFromString(raw)
        except Exception as e:  # DecodeError; ValueError and others in some versions
            raise ValueError(f"not a {self._class.DESCRIPTOR.full_name}: {e}") from None
        return message

    def _render(self, message: Any) -> bytes:
        try:
            return orjson.dumps(
                MessageToDict(
                    message,
                    always_print_fields_with_no_presence=True,
                    descriptor_pool=self._pool,
                )
            )
        except Exception as e:  # json_format's own, TypeError, UnicodeDecodeError, …
            raise ValueError(f"not representable as JSON: {type(e).__name__}: {e}") from None


class ProtobufFile:
    """The message types of a .proto file and of its imports; implements `formats.schemas.Schema`
    for records that have message indexes after the schema id.

    `files`: the last one is the file, the others are its imports, in any order. Raises ValueError
    if a type is missing or malformed.
    """

    format: ClassVar[str] = "protobuf"

    def __init__(self, files: Sequence[Any]) -> None:
        if not files:
            raise ValueError("not a descriptor set: it has no files")
        self._file = files[-1]
        self._pool = DescriptorPool()
        try:
            ordered = _in_order(files)
            for file in ordered:
                self._pool.AddSerializedFile(file.SerializeToString())
            self.messages = [
                name
                for file in reversed(ordered)
                if not file.name.startswith(_WELL_KNOWN)
                for name in _names(file.message_type, file.package)
            ]
            for name in self.messages:
                self._pool.FindMessageTypeByName(name)
        except Exception as e:  # TypeError, KeyError: what a type refers to is missing
            raise ValueError(f"not supported descriptors: {e}") from None
        if not self.messages:
            raise ValueError("not a descriptor set: it has no message types")
        self.descriptor_set: bytes = FileDescriptorSet(file=ordered).SerializeToString()
        self.fingerprint = _fingerprint(self.descriptor_set)
        self._types: dict[tuple[int, ...], MessageType] = {}  # by path; at most all of the file

    def message(self, name: str) -> MessageType:
        """A message type by its full name. Raises KeyError."""
        fingerprint = _fingerprint(name.encode() + b"\0" + self.descriptor_set)
        return MessageType(self._pool.FindMessageTypeByName(name), self._pool, fingerprint)

    @property
    def first_message(self) -> MessageType:
        """The first message type of the file. Raises ValueError if it has none."""
        return self._located_type(b"\0")[0]

    def check(self, raw: bytes) -> None:
        message, start = self._located_type(raw)
        message.check(raw[start:])

    def to_json(self, raw: bytes) -> bytes:
        message, start = self._located_type(raw)
        return message.to_json(raw[start:])

    def value_of(self, raw: bytes) -> bytes:
        return raw[self._located_type(raw)[1] :]

    def located(self, raw: bytes) -> tuple[str, bytes]:
        """The full name of the message type, and the message."""
        message, start = self._located_type(raw)
        return message.descriptor.full_name, raw[start:]

    def indexes(self, name: str) -> bytes:
        """The bytes after the schema id in the frame of a record, for a message type of this file.
        The inverse of `located`. Raises ValueError if the type is in another file."""
        path = _index_path(self._file.message_type, self._file.package, name)
        if path is None:
            raise ValueError(f"{name} is not in {self._file.name}, the last file of the set")
        if path == (0,):
            return b"\0"
        return b"".join(map(_zigzag, (len(path), *path)))

    def registration(self) -> str:
        """The file as a registry takes and serves it: `format=serialized`. Raises ValueError if it
        imports files that are not protobuf's own."""
        imports = [name for name in self._file.dependency if not name.startswith(_WELL_KNOWN)]
        if imports:
            raise ValueError(
                f"it imports {', '.join(imports)}; only {_WELL_KNOWN}… can be imported"
            )
        file = FileDescriptorProto()
        file.CopyFrom(self._file)
        file.ClearField("source_code_info")
        return base64.b64encode(file.SerializeToString(deterministic=True)).decode()

    def _located_type(self, raw: bytes) -> tuple[MessageType, int]:
        """The message type that the indexes name, and the position where the message starts."""
        indexes, start = _indexes(raw)
        if (message_type := self._types.get(indexes)) is not None:
            return message_type, start
        name, types = self._file.package, self._file.message_type
        try:
            for index in indexes:
                name, types = _joined(name, types[index].name), types[index].nested_type
            self._types[indexes] = self.message(name)
        except (IndexError, KeyError):
            path = "/".join(map(str, indexes))
            raise ValueError(f"the schema has no message type at index {path}") from None
        return self._types[indexes], start


def from_descriptor_set(content: bytes) -> ProtobufFile:
    """The types in a file of `protoc --include_imports --descriptor_set_out`. Raises ValueError."""
    try:
        files = FileDescriptorSet.FromString(content).file
    except Exception as e:
        raise ValueError(f"not a descriptor set: {e}") from None
    return ProtobufFile(files)


def with_origin(descriptor_set: bytes, origin: Origin) -> bytes:
    """The descriptor set with the origin as a comment of its last file, where protoc, too, puts
    comments."""
    files = FileDescriptorSet.FromString(descriptor_set)
    comment = files.file[-1].source_code_info.location.add()
    comment.leading_detached_comments.append(origin_text(origin))
    content: bytes = files.SerializeToString(deterministic=True)
    return content


def origin_in(descriptor_set: bytes) -> Origin | None:
    """The origin in a descriptor set of `with_origin`; None in others."""
    try:
        [*_, file] = FileDescriptorSet.FromString(descriptor_set).file
    except Exception:  # DecodeError; ValueError if there is no file
        return None
    comments = (
        comment
        for location in file.source_code_info.location
        for comment in location.leading_detached_comments
    )
    return next(filter(None, map(origin_from, comments)), None)


def from_registry(text: str, references: References) -> ProtobufFile:
    """The types in the answer of a registry for `format=serialized`. Raises ValueError."""
    files = []
    for name, serialized in (*references, ("", text)):
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(serialized, validate=True))
        except Exception as e:  # binascii.Error, DecodeError
            raise ValueError(f"not a serialized file descriptor: {e}") from None
        file.name = name or file.name or "schema.proto"  # a reference has the name of its import
        files.append(file)
    return ProtobufFile(files)


def _in_order(files: Sequence[Any]) -> list[Any]:
    """Copies of the files without comments, imports first, with those of the package protobuf.

    Imports that are missing are left out: they may have options only, which change no message.
    """
    by_name = {file.name: file for file in files}
    ordered: list[Any] = []
    visited: set[str] = set()

    def visit(name: str) -> None:
        if name in visited:
            return
        visited.add(name)
        file = FileDescriptorProto()
        file.CopyFrom(by_name[name])
        file.ClearField("source_code_info")
        for imported in file.dependency:
            if imported not in by_name and imported in _WELL_KNOWN_FILES:
                module = import_module(_WELL_KNOWN_FILES[imported])
                by_name[imported] = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
            if imported in by_name:
                visit(imported)
        _leave_out_imports(file, by_name)
        ordered.append(file)

    for file in files:
        visit(file.name)
    return ordered


def _leave_out_imports(file: Any, by_name: dict[str, Any]) -> None:
    """Remove the imports that are not in `by_name`. Other fields refer to imports by index."""
    imports, public = list(file.dependency), [file.dependency[i] for i in file.public_dependency]
    kept = [name for name in imports if name in by_name]
    if kept == imports:
        return
    for field in ("dependency", "public_dependency", "weak_dependency"):
        file.ClearField(field)
    file.dependency.extend(kept)
    file.public_dependency.extend(kept.index(name) for name in public if name in by_name)


def _names(types: Sequence[Any], parent: str) -> Iterator[str]:
    """The full names of message types and of those nested in them, without map entries."""
    for message_type in types:
        if not message_type.options.map_entry:
            name = _joined(parent, message_type.name)
            yield name
            yield from _names(message_type.nested_type, name)


def _joined(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def _index_path(types: Sequence[Any], parent: str, full_name: str) -> tuple[int, ...] | None:
    """The indexes of a message type among these and the types nested in them."""
    for index, message_type in enumerate(types):
        name = _joined(parent, message_type.name)
        if name == full_name:
            return (index,)
        nested = _index_path(message_type.nested_type, name, full_name)
        if nested is not None:
            return (index, *nested)
    return None


def _zigzag(number: int) -> bytes:
    """A number that is not negative, as a zigzag varint."""
    number, encoded = 2 * number, b""
    while number > 0x7F:
        encoded, number = encoded + bytes((number & 0x7F | 0x80,)), number >> 7
    return encoded + bytes((number,))


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _indexes(raw: bytes) -> tuple[tuple[int, ...], int]:
    """The path of the message type in its file, and the position in `raw` where the path ends.

    Zigzag varints: the number of indexes, and each index; one zero byte stands for [0].
    """
    count, end = _varint(raw, 0)
    if count == 0:
        return (0,), end
    if not 0 < count <= _MAX_INDEXES:
        raise ValueError(f"{count} message indexes; at most {_MAX_INDEXES} are allowed")
    indexes = []
    for _ in range(count):
        index, end = _varint(raw, end)
        if index < 0:
            raise ValueError("a negative message index")
        indexes.append(index)
    return tuple(indexes), end


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    """The number of a zigzag varint of at most 5 bytes at `position`, and the position after it."""
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(raw):
            raise ValueError("without message indexes after the schema id")
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise ValueError("a message index of more than 5 bytes")
