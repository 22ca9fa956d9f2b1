"""What the clients do, without I/O: nothing here opens a socket, sleeps or starts a thread.

A call is a generator: it yields what it wants done (`effects`), is sent what came of it, and
returns the answer. `Client` and `AsyncClient` drive the same calls, each in its own way.
"""
