"""Custom formats: classes that views.toml names for keys and values."""

from __future__ import annotations

import json

import pytest

from model.formats.codec import Codec
from model.formats.custom import load_codec
from model.problems import ConfigurationError
from model.views import View
from model.views_file import parse_views
from queryable import Raw
from queryable.client.protocol.formats import FORMATS, format_of
from queryable.client.protocol.views import View as ClientView
from tests.support.clients.scripted_transport import ORDERS


class Upper(Codec):
    """Text, stored in capitals."""

    keeps_bytes = False
    is_document = True

    def check(self, raw: bytes) -> None:
        if not raw.islower():
            raise ValueError("not in lower case")
        if raw == b"bug":
            raise KeyError("bug")

    def to_json(self, raw: bytes) -> bytes:
        return b"not JSON" if raw == b"wrong" else json.dumps(raw.decode()).encode()

    def to_store(self, raw: bytes) -> bytes:
        return b"TWO" if raw in (b"one", b"two") else raw.upper()

    def from_store(self, stored: bytes) -> bytes:
        return stored.lower()

    def from_text(self, text: bytes) -> bytes:
        return text.lower() if text != b"bug" else text[99].to_bytes()


class Fixed(Codec):
    size = 4

    def check(self, raw: bytes) -> None:
        pass

    def to_json(self, raw: bytes) -> bytes:
        return b"1"


class Abstract(Codec):
    def check(self, raw: bytes) -> None:
        pass


class WithArguments(Fixed):
    def __init__(self, of: int) -> None:
        pass


class ChangesBytes(Fixed):
    def to_store(self, raw: bytes) -> bytes:
        return raw[::-1]


class HasPrefixes(Upper):
    has_prefixes = True


UPPER, FIXED = f"{__name__}:Upper", f"{__name__}:Fixed"


def view(key: str = UPPER, value: str = FIXED) -> View:
    [made] = parse_views(f'[views.v]\ntopic = "t"\nkey = "{key}"\nvalue = "{value}"').views
    return made


def test_a_view_of_a_class() -> None:
    codec = view().key_codec
    codec.check(b"abc")
    assert (codec.to_store(b"abc"), codec.from_store(b"ABC")) == (b"ABC", b"abc")
    assert (codec.to_json(b"abc"), codec.from_text(b"ABC")) == (b'"abc"', b"abc")
    assert view().routed_encodings == ("base64url",)
    assert view().description()["key"] == codec.name == UPPER
    assert view(key="string").value_codec.size == 4


def test_the_hash_has_the_names_of_the_classes() -> None:
    hashes = {view().hash, view(key=FIXED).hash, view(value=UPPER).hash, view("json", "json").hash}
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("path", "raw", "why"),
    [
        (UPPER, b"Abc", "not in lower case"),
        (UPPER, b"bug", "Upper failed: KeyError"),
        (UPPER, b"wrong", "unexpected|JSON|expected"),
        (UPPER, b"one", "from_store does not undo to_store"),
        (UPPER, b"\xff", "lower case"),
        (FIXED, b"abc", "3 stored bytes, not 4"),
    ],
)
def test_invalid_results_are_dead_letters(path: str, raw: bytes, why: str) -> None:
    for check in (load_codec(path).check, load_codec(path).probe):
        with pytest.raises(ValueError, match=why):
            check(raw)


def test_exceptions_in_requests_are_invalid_input() -> None:
    codec = load_codec(UPPER)
    with pytest.raises(ValueError, match="Upper failed: IndexError"):
        codec.from_text(b"bug")
    with pytest.raises(ValueError, match="from_store"):
        codec.from_text(b"ONE")
    assert codec.json_to_text("a", b'"a"') == (b'"a"', False)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no.such.module:Class", "cannot be imported"),
        (f"{__name__}:NoSuchClass", "cannot be imported"),
        (f"{__name__}:view", r"not a subclass of model\.formats\.codec\.Codec"),
        ("backend.storage.bloom_filter:BloomFilter", "not a subclass"),
        (f"{__name__}:Abstract", "lacks the methods to_json"),
        (f"{__name__}:WithArguments", "cannot be created without arguments"),
        (f"{__name__}:ChangesBytes", "needs keeps_bytes = False"),
        (f"{__name__}:HasPrefixes", "needs keeps_bytes = True"),
    ],
)
def test_a_class_that_is_not_one_is_refused(path: str, why: str) -> None:
    for field in ("key", "value"):
        with pytest.raises(ConfigurationError, match=why) as raised:
            view(**{field: path}).codecs()
        assert str(raised.value).startswith(f"[views.v], {field}: {path} ")


@pytest.mark.parametrize("format_", ["xml", "a:b:c", "a.b:", ":B", "none"])
def test_what_is_neither_a_format_nor_a_class(format_: str) -> None:
    with pytest.raises(ConfigurationError, match=r"line 3.*key: unknown value.*or a class"):
        view(key=format_)


def test_the_client_needs_no_class() -> None:
    about = ClientView.from_json({**ORDERS, "key": "not.installed:Here", "value": UPPER})
    assert about.key.path_segment("10.0.0.1") == ("10.0.0.1", False)
    assert about.key.path_segment({"a": 1}) == ("%7B%22a%22%3A1%7D", False)
    assert about.key.path_segment(Raw(b"\0")) == ("AA", True)
    assert about.key.record_bytes("a") is None
    assert about.value.from_json({"a": 1}) == {"a": 1}
    assert format_of("string") is FORMATS["string"]
