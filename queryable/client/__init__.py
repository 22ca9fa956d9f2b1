"""The clients: `Client` for threads, `AsyncClient` for asyncio.

Both run the same calls. What a call does is in `protocol`, which does no I/O.
"""
