"""The kinds of requests: each module has those of a group of routes, with their weights."""
