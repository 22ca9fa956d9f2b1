"""Kills Spark's job again and again, and compares each view topic with a batch job's:
`python -m tests.pipelines` (make pipelines).

`comparison`, `phases`, `raw_records` and `reference` are pure. `feeder` writes raw topics, `job`
runs and kills the job, `kills` decides when, `batch` is the batch job, `runner` runs all of it on
one kind of cluster. The job is the product's own `python -m spark.run`, unchanged.
"""
