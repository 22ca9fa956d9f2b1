"""Views in Spark's real-time mode: decoding, placement and checks without Python workers.

Rule: what this package computes for a record is what a micro-batch computes for it, or the record
is malformed.
"""
