"""Penstock in PySpark: a session that starts anywhere, and the data source `penstock`.

>>> from penstock.spark import session
>>> spark = session()                                                       # doctest: +SKIP
>>> spark.read.format("penstock").option("subscribe", "orders").load()      # doctest: +SKIP
"""

from penstock.spark.java import SparkSetupError
from penstock.spark.session import session

__all__ = ["SparkSetupError", "session"]
