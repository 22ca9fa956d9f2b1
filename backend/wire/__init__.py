"""Byte formats between proxy and backend, and between backends.

Pure functions without I/O. Sizes are checked before anything is parsed.
"""
