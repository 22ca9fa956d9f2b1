"""The calls of the API, one module per query. The clients run them: `queryable/client/api.py`.

`timeout` is in seconds, for a call with its retries. A call raises QueryableError (`errors`) for
everything that is not an answer.
"""
