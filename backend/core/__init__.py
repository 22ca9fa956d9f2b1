"""What a view, a key, a partition and a topology are: pure functions and frozen values.

Nothing here does I/O, starts a thread, reads a clock or keeps a global that changes.
"""
