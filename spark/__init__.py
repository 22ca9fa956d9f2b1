"""Structured Streaming jobs: raw topics in, view topics out.

``views`` has one module for each view: a DataFrame ► DataFrame function. ``raw_topics`` and
``formats`` decode records, ``event_time`` has watermarks and sessions, ``supervision`` runs the
queries; ``run``, ``health`` and ``archive`` are commands. The plan is Spark's own except for JSON,
which Python decodes an Arrow batch at a time; so executors need this project, too.

Rule: of our other packages only ``model`` may be imported. No file or folder here has the
name of an installed module: ``spark-submit spark/run.py`` puts this folder on ``sys.path``.
"""
