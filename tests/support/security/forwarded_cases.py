"""Requests behind proxies, and the address of their client. Both nginx and instances must find it.

The proxies have 127.0.1.0/24, 2001:db8:1::/48 and 192.0.2.1.
"""

TRUSTED = "127.0.1.0/24,2001:db8:1::/48,192.0.2.1"

SOCKET, UNTRUSTED_SOCKET = "127.0.1.1", "127.0.2.1"
"""Of a proxy, and of a client."""

CASES: list[tuple[str, list[str], str]] = [
    # the socket, the headers X-Forwarded-For, and the client
    (SOCKET, [], SOCKET),
    (SOCKET, ["203.0.113.7"], "203.0.113.7"),
    # two proxies in a row
    (SOCKET, ["203.0.113.7, 127.0.1.2"], "203.0.113.7"),
    (SOCKET, ["203.0.113.7, 192.0.2.1, 2001:db8:1::5"], "203.0.113.7"),
    # the client lies: about itself, and about a proxy
    (SOCKET, ["198.51.100.1, 203.0.113.7, 127.0.1.2"], "203.0.113.7"),
    (SOCKET, ["127.0.0.1, 127.0.1.9, 203.0.113.7, 127.0.1.2"], "203.0.113.7"),
    (UNTRUSTED_SOCKET, ["203.0.113.7"], UNTRUSTED_SOCKET),
    (UNTRUSTED_SOCKET, ["127.0.1.1"], UNTRUSTED_SOCKET),
    # several headers are one
    (SOCKET, ["198.51.100.1", "203.0.113.7", "127.0.1.2"], "203.0.113.7"),
    # all are proxies: the first of them
    (SOCKET, ["127.0.1.3, 127.0.1.2"], "127.0.1.3"),
    # not addresses: the proxy that has written it
    (SOCKET, ["unknown"], SOCKET),
    (SOCKET, ["198.51.100.1, unknown, 127.0.1.2"], "127.0.1.2"),
    (SOCKET, ["198.51.100.1, 256.0.0.1"], SOCKET),
    (SOCKET, ["unix:"], SOCKET),
    (SOCKET, [""], SOCKET),
    # other forms of addresses
    (SOCKET, ["203.0.113.7:4711"], "203.0.113.7"),
    (SOCKET, ["2001:db8::7"], "2001:db8::7"),
    (SOCKET, ["[2001:db8::7]:4711"], "2001:db8::7"),
    (SOCKET, ["198.51.100.1,203.0.113.7 ,, 127.0.1.2, "], "203.0.113.7"),
]
