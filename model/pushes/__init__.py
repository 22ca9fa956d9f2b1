"""Pushes: the whole content of a view as files that a batch job writes and instances install.

The folder of a view's pushes (`push` in views.toml) has

    current.json             names the newest push: {"push": "<id>"}
    <id>/manifest.json       `manifest.Manifest`
    <id>/<name>.sst          entries of one partition, in RocksDB's table format (`tables`)

A push exists once `current.json` names it. The idea comes from LinkedIn's Venice.
"""
