"""The language of expressions: ``status >= 500 and lower(method) in ('get', 'head')``.

Pure: no I/O, no clock, no Spark. An expression uses the fields of one row. It is typed when it is
parsed, has a bounded size, and cannot fail, whatever is in a row.
"""
