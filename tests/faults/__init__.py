"""Faults under load: `python -m tests.faults` (make faults), `python -m tests.faults.soak`.

`checking` and `redundancy` are pure; `load` asks and writes, `faults` and `tcp` break things,
`scenarios` are one function a fault. The product knows nothing of any of it.
"""
