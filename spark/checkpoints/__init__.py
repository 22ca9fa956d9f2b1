"""Checks that a checkpoint belongs to the view that continues it.

``view.json`` in a view's checkpoint folder has the view's name, topics, revision and code. Rule: a
view is started only after ``check.check_view``.
"""
