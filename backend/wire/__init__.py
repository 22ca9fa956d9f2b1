"""Bytes between proxy and backend, and between backends.

Pure: no I/O. Sizes are checked before anything is parsed.
"""
