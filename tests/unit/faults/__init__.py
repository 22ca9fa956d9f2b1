"""Faults under load: `python -m tests.faults` (make faults), `python -m tests.faults.soak`.

`checking`, `redundancy` and `flatness` are pure. `load` reads, `writing` writes, `faults` injects
faults, `scenarios` has one function per scenario, `runner` runs it. The product imports none of it.
"""
