"""Fuzz tests: inputs that nobody thought of, for everything that reads bytes of others.

`make fuzz MINUTES=10` runs them for a time, guided by coverage. `test_targets.py` runs each for a
moment, and all inputs that once failed (`crashes/`).
"""
