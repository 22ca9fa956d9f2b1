"""Texts that are JSON by RFC 8259, and texts that are not: one table for all parsers of JSON, which
are the format `json` of backends, and Spark's decoders in Python and in real-time mode.

`python -m tests.vectors.json_cases` prints them for the programs that make `json_texts.jsonl`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NUMBERS = [
    "0", "-0", "-0.0", "-0e0", "1", "1.0", "-1.0", "1e2", "1E+2", "1.5E+3", "100e-2", "4.9e-324",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "9007199254740993",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "123456789012345678901234567890", "12345678901234567890.5",
    "12345678901234567890123456789012345678.5", "0.1", "2.675", "3." + "0" * 40 + "1",
    "0.1000000000000000055511151231257827", "9" * 400 + "e-200", "1e999999999999",
    "1e-999999999999",
]  # fmt: skip
TEXTS = [
    r'"x"', r'"\u0041\u00e9"', r'"\\"', r'"a\"b"', r'"\b\f\n\r\t"', r'"5"', r'"true"', r'"null"',
    r'"1e400"', r'"2013-01-01T10:00:00Z"', r'"\\\\ud83d\ude00"', r'"\\\ud83d\\\ude00"',
    r'"\uD83D\uD83D\uDE00\uDE00"', r'"\n\ude00\u0041\ud83d\t"', r'"\ud83d\ude00\ud83d\ude00"',
    r'"\ud83dd83d\u005cud83d"', r'"\udbff\udfff"', '"\x7f"',
    '"\u2028\u2029"', '"\ufeff"', '"\x80\xe9"',
]  # fmt: skip
OTHERS = ["true", "false", "[]", "{}", "[1,2]", '{"s":1}', "[[[]]]", "[1e400]", '["\\ud83d"]']
DOCUMENTS: dict[str, bytes] = {
    "a member twice": b'{"v":1,"v":2}',
    "a member twice, the last one null": b'{"v":1,"v":null}',
    "a member twice, of two types": b'{"v":"x","v":5}',
    "a member twice, with an escape": rb'{"v":1,"\u0076":"x"}',
    "a name in escapes": rb'{"\u0076":5}',
    "a name in capitals": b'{"V":5}',
    "a name with a space": b'{" v":5,"v ":6}',
    "a name with a zero character": rb'{"v\u0000":5}',
    "no members": b"{ }",
    "members among others": rb'{"a":[1e400,{"v":1}],"":{"v":2},"v":"x","\ud83d":3}',
    "all white space": b'\t\n\r {\t\n\r "v"\t\n\r :\t\n\r 5\t\n\r ,"z":[ ] }\t\n\r ',
    "quotes and brackets in texts": rb'{"z":"]},\"{[","v":"\\"}',
    "1,024 levels": b'{"v":1,"z":' + b"[" * 1023 + b"]" * 1023 + b"}",
    "a number of 1,100 characters": b'{"v":1,"z":0.' + b"1" * 1098 + b"}",
}
"""Objects with a member v; see `document`."""

STRICTER = ("1,024 levels", "a number of 1,100 characters")
"""What Jackson refuses by its default limits, and so does Spark without Python:
docs/spark/real-time.md lists them."""

GOOD: dict[str, bytes] = {
    **{f"the number {text[:40]}": text.encode() for text in NUMBERS},
    **{f"text {number}": text.encode() for number, text in enumerate(TEXTS)},
    **{f"value {number}": text.encode() for number, text in enumerate(OTHERS)},
    **DOCUMENTS,
    # what JSON.stringify writes of a text that was cut within an emoji
    "the first half of an emoji": rb'{"name":"x\ud83d"}',
    "the second half": rb'{"name":"\ude00x"}',
    "the halves in the wrong order": rb'"\ude00\ud83d"',
    "two first halves": rb'"\ud83d\ud83d\ude00"',
    "half an emoji before another escape": rb'"\ud83d\u0041\ud83d\n\ud83d\\"',
    "half an emoji in capitals": rb'"\uD83D"',
    "half an emoji in a name": rb'{"\ud83d":1}',
    "half an emoji after a backslash": rb'"\\\ud83d"',
    "an escaped backslash, not half an emoji": rb'"\\ud83d"',
    "an emoji in escapes": rb'"\ud83d\ude00"',
    "an emoji": '"\U0001f600"'.encode(),
    "the greatest character": '"\U0010ffff"'.encode(),
    "a non-character": '"\uffff\\uffff"'.encode(),
    "a zero character": rb'"\u0000"',
    "a slash, escaped": rb'"\/"',
    # BigDecimal of Java, Decimal of Python, big.Float of Go
    "a number beyond double": b'{"n":1e400}',
    "a negative number beyond double": b"[-1E+400]",
    "a number beyond double in a text": rb'"1e400 \" 1e400"',
    "a number just within double": b"1.7976931348623157e308",
    "a number just beyond double": b"1.7976931348623159e308",
    "a number next to zero": b"1e-400",
    "a whole number of 400 digits": b"1" * 400,
    "a fraction of 400 digits": b"1" * 400 + b".5",
    "a whole number of 800 digits after zero": b"0." + b"1" * 800,
    "a whole number beyond 64 bits": b"18446744073709551616",
    "minus zero": b"[-0,-0.0,-0e5]",
    "an exponent with zeros": b"1e0000001",
    "a name twice": b'{"a":1,"a":2}',
    "an empty name": b'{"":1}',
    "white space": b"\t\n\r [ ]\r\n",
    "a text": b'""',
    "null": b"null",
    "900 levels": b"[" * 900 + b"]" * 900,
    "half an emoji in 900 levels": b'{"a":' * 900 + rb'"\ud83d"' + b"}" * 900,
}

BAD: dict[str, bytes] = {
    "nothing": b"",
    "only white space": b" ",
    "NaN": b"NaN",
    "infinity": b"[-Infinity]",
    "a comma at the end": b"[1,]",
    "two documents": b"1 2",
    "a number beyond double and another": b"1e400 1e400",
    "two signs": b"--1e400",
    "a plus": b"+1e400",
    "a zero before a number": b"[01e400]",
    "a zero before a negative number": b"[-01e400]",
    "a point at the end": b"1.e400",
    "a point at the start": b".1e400",
    "no exponent": b"1e",
    "letters after a number": b"1e400x",
    "two numbers as one": b"[1e400-1e400]",
    "two points": b"1e400.5",
    "hexadecimal": b"0x10",
    "single quotes": b"{'a':1e400}",
    "a name without quotes": b"{a:1}",
    "a comment": b"/* 1 */ 1e400",
    "a text without an end": rb'"\ud83d',
    "escaped quotes without an end": rb'"\"\"\"\ud83d\"',
    "an unknown escape": rb'"\x41\ud83d"',
    "three digits": rb'"\ud83"',
    "a sign in an escape": rb'"\u+83d"',
    "a line break in a text": b'"\n"',
    "a zero byte in a text": b'"\0"',
    "a zero byte after it": b"1\0",
    "not UTF-8": b'"\xff"',
    "half an emoji as bytes": b'"\xed\xa0\xbd"',
    "an overlong zero": b'"\xc0\x80"',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a no-break space": "\u00a01".encode(),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "an object without an end": b'{"v":1',
    "the end of an object": b"}",
    "text after an object": b'{"v":1} x',
    "the end of an array after an object": b'{"v":1}]',
    "an object and the end of an array": b'{"v":1},0]',
    "an object, the end of an array and more": b'{"v":1},0] {',
    "two objects": b'{"v":1}{"v":2}',
    "two objects with a comma": b'{"v":1},{"v":2}',
    "arrays turned inside out": b'{"v":1}] [{"v":1}',
    "an object and a quote": b'{"v":1}\'',
    "an object and a zero byte": b'{"v":1}\0',
    "an object and a line separator": '{"v":1}\u2028'.encode(),
    "an object and a comment": b'{"v":1}#c',
    "an object after a form feed": b'\f{"v":1}',
    "an object after a vertical tab": b'\v{"v":1}',
    "a comma at the end of an object": b'{"v":1,}',
    "only a comma": b"{,}",
    "two commas": b'{"v":1,,"z":2}',
    "no comma": b'{"v":1 "z":2}',
    "a comma for a colon": b'{"v",1}',
    "no value": b'{"v":}',
    "a number as a name": b"{1:1}",
    "true in capitals": b"True",
    "a part of null": b"nul",
    "a word": b"x",
    "a minus": b"-",
    "a plus before zero": b"+0",
    "an exponent with a sign only": b"1e+",
    "digits of another script": "\u0661".encode(),
    "a digit that is no hexadecimal": rb'"\ud83g"',
    "an escape without an end": rb'"\u00',
    "a backslash without an end": b'"\\',
    "a control character in a text": b'"\x1f"',
    "beyond the greatest character": b'"\xf4\x90\x80\x80"',
    "a character without its last byte": b'"\xf0\x9f\x98"',
    "a name that is not UTF-8": b'{"\xff":1,"v":1}',
    "1,025 levels": b'{"v":1,"z":' + b"[" * 1024 + b"]" * 1024 + b"}",
    "2,000 levels": b"[" * 2000 + b"]" * 2000,
}
"""Those with too many levels are JSON that is refused all the same: see `REASONS`."""

_DEPTH = "not JSON: depth limit exceeded: more than 1,024 levels"

REASONS = {
    "a byte order mark": "a byte order mark",
    "1,025 levels": _DEPTH,
    "2,000 levels": _DEPTH,
    "not UTF-8": "not UTF-8",
    "half an emoji as bytes": "not UTF-8",
    "an overlong zero": "not UTF-8",
    "UTF-16": "not UTF-8",
    "beyond the greatest character": "not UTF-8",
    "a character without its last byte": "not UTF-8",
    "a name that is not UTF-8": "not UTF-8",
}

CASES = {**GOOD, **BAD}


def document(name: str) -> bytes:
    """The value of a record with the case: one of `DOCUMENTS`, or an object whose member v is the
    text."""
    return DOCUMENTS.get(name) or b'{"v":%b}' % CASES[name]


def verdicts() -> dict[str, dict[str, Any]]:
    """By case: what Node.js, Jackson and Go say."""
    lines = Path(__file__).with_name("json_texts.jsonl").read_text().splitlines()
    return {verdict["case"]: verdict for verdict in map(json.loads, lines)}


if __name__ == "__main__":
    for name, text in CASES.items():
        print(json.dumps({"case": name, "text": text.hex(), "document": document(name).hex()}))
