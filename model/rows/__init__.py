"""What the values of records mean for a view: a row, a deletion, or nothing.

Usually every value is a row. With `null_deletes`, the null of a format deletes the key. With
`unwrap`, values are events of a program that captures changes, and the row is a part of them.
"""
