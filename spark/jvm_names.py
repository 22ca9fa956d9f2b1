"""Caches the Java classes that pyspark looks up for each micro-batch.

py4j asks the JVM for each part of a name such as ``jvm.py4j.reflection.TypeUtil``, and caches no
answers. For a part that is not a class, the JVM searches all jars, once for each import with a
``*``. pyspark does this hundreds of times for each micro-batch, when it converts a progress report.
With small micro-batches this is a third of the JVM's CPU time. The job does it for each file.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaPackage

# py4j looks up TypeUtil at the end of each iteration over a Java collection. pyspark looks up the
# names without dots to convert values, and for each function of a column. The job looks up the
# others.
_BY_PARTS = (
    "PythonRDD",
    "PythonSQLUtils",
    "PythonUtils",
    "SerDeUtil",
    "SimplePythonFunction",
    "functions",
    "java.util.HashMap",
    "org.apache.commons.io.IOUtils",
    "org.apache.hadoop.fs.Path",
    "org.apache.kafka.clients.admin.OffsetSpec",
    "org.apache.kafka.clients.consumer.OffsetAndMetadata",
    "org.apache.kafka.common.TopicPartition",
    "org.apache.kafka.common.config.ConfigResource",
    "py4j.reflection.TypeUtil",
)
# These are looked up by their full names, also at the end of each iteration, and for each function
# and data frame.
_BY_FULL_NAME = (
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.classic.SparkSession$",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.util.Utils",
)


def keep_classes(jvm: Any) -> None:
    """Sets the classes as attributes of ``jvm``, so that Python does not ask the JVM for them.
    Classes of missing jars are looked up as before."""
    for name in _BY_PARTS:
        owner = jvm
        *packages, simple_name = name.split(".")
        for part in packages:
            package = getattr(owner, part)
            setattr(owner, part, package)
            owner = package
        java_class = getattr(owner, simple_name)
        if not isinstance(java_class, JavaPackage):
            setattr(owner, simple_name, java_class)
    for name in _BY_FULL_NAME:
        setattr(jvm, name, getattr(jvm, name))
