"""What the right answers are: a slow, simple model of topics, tables and queries.

`tables` answers from records; `records` and `questions` draw random ones. Of the product it uses
only the definition of a view.
"""
