"""Reads keys with the Python client that is on PYTHONPATH, until stdin is closed.

The values are {"n": number}, and the numbers of a key only grow. Prints a line of JSON after the
first pass, and one at the end. It imports nothing else of this project, so it runs with the client
of any release.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import queryable


def main() -> None:
    url, view, *keys = sys.argv[1:]
    closed = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
    found: dict[str, Any] = {"module": queryable.__file__, "reads": 0, "failed": [], "wrong": []}
    newest: dict[str, int] = {}
    with queryable.Client(url, direct=True) as client, client.session():
        while not closed.is_set():
            for key in keys:
                found["reads"] += 1
                try:
                    value = client.get(view, key).value
                except Exception as error:  # each failed read counts
                    found["failed"].append(repr(error))
                    continue
                if value is None or value["n"] < newest.get(key, 0):
                    found["wrong"].append(f"{key}: {value} after {newest.get(key)}")
                else:
                    newest[key] = value["n"]
            if found["reads"] == len(keys):
                print(json.dumps({"has_read": len(keys)}), flush=True)
            closed.wait(0.02)
    print(json.dumps(found), flush=True)


main()
