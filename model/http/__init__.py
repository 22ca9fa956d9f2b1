"""HTTP requests from threads, with urllib3. Each request has one time-out for all of its answer.

This package does I/O, unlike the rest of `model`: backends, Spark, the client and the local stack
share it. `answers` and `problems` do none.
"""
