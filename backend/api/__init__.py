"""HTTP: what a request means, and how it is answered.

`shell` (ASGI) carries what is hot; `pages` (Flask, through a2wsgi) the rest. Both ask `reads` and
`Serving`, so that a read means one thing.
"""
