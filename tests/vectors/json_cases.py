"""Texts that are JSON by RFC 8259, and texts that are not.

`python -m tests.vectors.json_cases` prints them for the programs that make `json_texts.jsonl`.
"""

from __future__ import annotations

import json

GOOD: dict[str, bytes] = {
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
    "2,000 levels": b"[" * 2000 + b"]" * 2000,
}
"""Two of them are JSON that is refused all the same: see `REASONS`."""

REASONS = {
    "a byte order mark": "a byte order mark",
    "2,000 levels": "not JSON: depth limit exceeded: more than 1,024 levels",
    "not UTF-8": "not UTF-8",
    "half an emoji as bytes": "not UTF-8",
    "an overlong zero": "not UTF-8",
    "UTF-16": "not UTF-8",
}

CASES = {**GOOD, **BAD}


if __name__ == "__main__":
    for name, text in CASES.items():
        print(json.dumps({"case": name, "text": text.hex()}))
