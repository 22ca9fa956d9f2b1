"""The tasks of a query that has ended."""

from __future__ import annotations

from pyspark.sql import SparkSession

# A micro-batch has a few jobs, and begins after the jobs of the last micro-batch have ended.
_LAST_JOBS = 20


def running_tasks(session: SparkSession, run: str) -> int:
    """The number of tasks of a query that have not ended. ``run``: the id of the query's run.

    Spark cancels them when a query fails, and does not wait for their end. Tasks of an executor
    that is lost have ended. Each stage has one attempt only (``spark.required``).
    """
    tracker = session.sparkContext.statusTracker()
    count = 0
    for job in sorted(tracker.getJobIdsForGroup(run))[-_LAST_JOBS:]:
        job_info = tracker.getJobInfo(job)
        for stage in job_info.stageIds if job_info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            count += stage_info.numActiveTasks if stage_info is not None else 0
    return count
