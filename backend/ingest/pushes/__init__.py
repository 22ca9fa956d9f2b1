"""Pushes (`model.pushes`): the files of a batch job are fetched, verified and installed."""
