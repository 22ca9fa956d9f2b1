"""Caches the Java classes that pyspark looks up for each micro-batch.

py4j asks the JVM for each part of a name such as ``jvm.py4j.reflection.TypeUtil``, and caches no
answers. For a part that is not a class, the JVM searches all jars, once for each import with a
``*``. pyspark does this hundreds of times for each micro-batch, when it converts a progress report.
With small micro-batches this is a third of the JVM's CPU time.
"""

from __future__ import annotations

from typing import Any

# py4j looks up TypeUtil at the end of each iteration over a Java collection; pyspark looks up the
# others to convert values.
_BY_PARTS = ("py4j.reflection.TypeUtil", "PythonSQLUtils", "PythonUtils")
# Looked up as one name, also at the end of each iteration, and for each function of a column.
_BY_FULL_NAME = (
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.util.Utils",
)


def keep_classes(jvm: Any) -> None:
    """Sets the classes as attributes of ``jvm``, so that Python does not ask the JVM for them."""
    for name in _BY_PARTS:
        owner = jvm
        for part in name.split("."):
            found = getattr(owner, part)
            setattr(owner, part, found)
            owner = found
    for name in _BY_FULL_NAME:
        setattr(jvm, name, getattr(jvm, name))
