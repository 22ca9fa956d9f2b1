"""/openapi.json: YAML files, and Python that fills in what depends on the views.

A new query needs one new YAML file here. `base.yaml` explains how the files are written.
"""
