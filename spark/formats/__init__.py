"""The columns of records, strict decoders of their values, and the layouts of view keys.

Rule: pure functions of columns and Arrow batches. This package starts no queries and uses no views.
"""
