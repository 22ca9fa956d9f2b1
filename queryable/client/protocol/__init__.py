"""The API as the clients use it, without I/O: no sockets, no sleeping, no threads.

A call is a generator. It yields the I/O operations that it needs (`transport`), receives their
results, and returns its result. `Client` and `AsyncClient` run the same calls.
"""
