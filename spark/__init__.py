"""Structured Streaming jobs: raw topics in, view topics out.

A view is a DataFrame -> DataFrame function in ``spark.views``; only ``spark.run`` starts anything.
The plan is Spark's own but for the decoding of JSON, which Python does an Arrow batch at a time: so
executors need this project too.
Of our other packages only ``model`` may be imported. A Spark session is named ``session``;
no file has a standard library name (``spark-submit`` puts this folder on ``sys.path``).
"""
