"""Time as the records tell it: bounds, watermarks and session windows.

Rule: whether a record counts depends on the record alone, never on the order of reading.
"""
