"""What records hold: their columns, strict decoders of their values, and layouts of view keys.

Rule: pure functions of columns and Arrow batches; nothing here starts a query or knows a view.
"""
