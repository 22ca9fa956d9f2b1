"""Event time: bounds, watermarks and session windows.

Rule: whether a record counts depends only on the record, never on the order of reading.
"""
