"""Structured Streaming jobs: raw topics in, view topics out.

A view is a DataFrame -> DataFrame function in ``spark.views``; only ``spark.run`` starts anything.
No Python runs per record (no UDFs): the plan is Spark's own, and executors need no code of ours.
Of our other packages only ``backend.core`` may be imported. A Spark session is named ``session``;
no file has a standard library name (``spark-submit`` puts this folder on ``sys.path``).
"""
