"""`.option("connector", "kafka")`: the same program on Spark's own Kafka connector, which runs in the JVM.

A data source in Python cannot hand over to one in the JVM: Spark has chosen between them by the name in
`format(…)` before it asks either. So the choice is made one step earlier, where PySpark sends the finished
description to the JVM: `load()`, `save()` and `start()`. `install` puts a look at the options in front of
these four methods; when the format is `penstock` and the connector `kafka`, the format becomes `kafka` and
the options that have another name there are added. Everything else passes through untouched.

The options need no removal: those of equal name mean the same, and Spark's connector ignores the rest. Three
things are not the same: it does not commit to `group`, `timeoutMs` has no meaning, and it writes at least
once. Who asks for `exactlyOnce` is told so.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrameReader, DataFrameWriter
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from penstock.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FORMAT: Final = "penstock"
OPTION: Final = "connector"
MISSING: Final = "Failed to find data source: kafka"
PACKAGE: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

_METHODS: Final = (
    (DataFrameReader, "load", "_jreader"),
    (DataStreamReader, "load", "_jreader"),
    (DataFrameWriter, "save", "_jwrite"),
    (DataStreamWriter, "start", "_jwrite"),
)


def install() -> None:
    """Teaches PySpark the option. Doing it again changes nothing."""
    for owner, name, description in _METHODS:
        method = getattr(owner, name)
        if not hasattr(method, "_penstock_connector"):
            setattr(owner, name, _redirected(method, description))


def translated(options: Mapping[str, str], *, reading: bool) -> dict[str, str]:
    """What has to be added to the options (by lower-case names) for Spark's connector to do the same."""
    added = {"includeHeaders": "true"}  # the column is always there in ours
    if "bootstrap" in options:
        added["kafka.bootstrap.servers"] = options["bootstrap"]
    if reading and "kafka.isolation.level" not in options:
        added["kafka.isolation.level"] = "read_committed"
    return added


def _redirected(method: Callable[..., Any], description: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        given = inspect.signature(method).bind(self, *arguments, **named).arguments
        options = _options(getattr(self, description)) | _lower(given.get("options", {}))
        source = given.get("format") or getattr(self, description).source() or ""
        if source.lower() != FORMAT or options.get(OPTION, "").lower() != "kafka":
            return method(self, *arguments, **named)
        reading = description == "_jreader"
        if not reading and options.get("exactlyonce", "").lower() == "true":
            raise OptionError("exactlyOnce", "Spark's Kafka connector writes at least once")
        given.update(
            format="kafka", options={**given.get("options", {}), **translated(options, reading=reading)}
        )
        extra = given.pop("options")
        try:
            return method(**given, **extra)
        except AnalysisException as error:
            if MISSING not in str(error):
                raise
            raise OptionError(
                OPTION,
                "Spark's Kafka connector is not on the class path; add it with "
                f'session(config={{"spark.jars.packages": "{PACKAGE}"}})',
            ) from error

    call._penstock_connector = True  # type: ignore[attr-defined]  # the mark that install() looks for
    return call


def _options(java: Any) -> dict[str, str]:
    """The options in a reader or writer of the JVM, by lower-case name."""
    found, pairs = {}, java.extraOptions().iterator()
    while pairs.hasNext():
        pair = pairs.next()
        found[pair._1()] = pair._2()
    return _lower(found)


def _lower(options: Mapping[str, Any]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in options.items()}
