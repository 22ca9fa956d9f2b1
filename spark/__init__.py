"""Structured Streaming jobs: they read raw topics and write view topics.

``views`` has one module per view: a DataFrame ► DataFrame function. ``raw_topics`` and ``formats``
decode records, ``event_time`` has watermarks and sessions, ``supervision`` runs the queries;
``run``, ``health`` and ``archive`` are commands. Queries consist of Spark's own operators, except
that Python decodes JSON, one Arrow batch at a time; so executors need this project, too.

Rule: this package imports no other package of the project but ``model``, and ``spark.batch`` also
``queryable``. No file or folder here has the name of an installed module: ``spark-submit
spark/run.py`` puts this folder on ``sys.path``.
"""
