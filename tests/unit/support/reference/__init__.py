"""The correct answers: a slow, simple model of topics, tables and queries.

`tables` answers queries from records. `records` and `questions` generate random records and
queries. The only code of the product that it uses is the definition of a view.
"""
