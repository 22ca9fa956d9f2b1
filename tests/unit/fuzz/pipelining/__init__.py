"""Pipelined mixes of all kinds of requests: each answer must be that of its request.

`kinds/` makes the requests, a module for each group of routes, and `mix.py` draws from all of them.
`connections.py` sends bursts over two connections and checks the answers.
"""
