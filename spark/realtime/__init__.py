"""Views in Spark's real-time mode: decoding, placement and checks without Python workers.

Rule: this package computes for each record the same result as a micro-batch, or rejects the record
as malformed.
"""
