"""The heat map job: quadrant topics in, `traffic.heatmap` out. Only here are the session and topics touched.

A query that fails because brokers are away is started again from its checkpoint, as often as that happens.
What does not pass by itself ends the job: messages that are gone, a checkpoint for another map, and whatever
fails again and again without any batch in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from penstock.client.errors import PenstockError
from penstock.client.kafka.cluster import Cluster as Brokers
from penstock.client.kafka.topic_clusters import TopicClusters
from penstock.pipelines.traffic import transforms
from penstock.pipelines.traffic.checkpoint import claimed_checkpoint
from penstock.pipelines.traffic.publisher import HeatmapPublisher
from penstock.pipelines.traffic.source import FORMAT, GRID, PositionsDataSource
from penstock.pipelines.traffic.starting import HEATMAP as HEATMAP_JOB
from penstock.pipelines.traffic.tally import Shape
from penstock.spark.errors import SourceError
from penstock.spark.failures import SPARK_ERRORS, line_of, own_kind
from penstock.spark.session_start import own_interrupts
from penstock.traffic.city_map import read_map
from penstock.traffic.topics import HEATMAP, QUADRANT_PATTERN, SHARED_PLANS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.stop import Stop
    from penstock.spark.launch import Java

GROUP: Final = "penstock-traffic-heatmap"
"""Progress is committed under this name, so that the job's lag can be seen."""
TRIGGER: Final = "250 milliseconds"
"""Batches begin at least so far apart: without traffic the machine is left alone."""
BATCH_MESSAGES_MAX: Final = 2_000_000
TIMEOUT_MS: Final = 30_000
WAIT_S: Final = 0.25
SAY_EVERY_S: Final = 5.0
RESTART_PAUSE_S: Final = 1.0
FAILURES_MAX: Final = 5
"""In a row, of a kind that nobody has foreseen."""

_NEVER_PASSES: Final = ("DataLossError", "OptionError", "StateError")

Say = Callable[[str], None]


class JobError(Exception):
    """The job cannot go on; the message is one line."""


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    checkpoint: str
    window_ms: int = 5_000
    watermark_ms: int = 10_000
    connector: str = "penstock"
    starting: str = "earliest"


def run(settings: Settings, master: str | None, stop: Stop, say: Say, java: Java | None = None) -> None:
    """Runs until `stop` is set, on a Java that was started ahead (starting.py) or is started now.

    Raises JobError, FolderError, SparkSetupError or PenstockError.
    """
    ensure_heatmap_topic(settings.bootstrap)
    shape = Shape(settings.window_ms, read_map(settings.bootstrap).grid)
    with claimed_checkpoint(settings.checkpoint, shape) as folder:
        with own_interrupts():
            spark = HEATMAP_JOB.session(master, java)
        try:
            _Job(spark, settings, shape, folder, say).run(stop)
        except (Py4JError, ConnectionError) as error:
            raise JobError("Spark: its Java process has died") from error
        finally:
            with suppress(Py4JError, ConnectionError):  # nothing is left to be stopped when Java has died
                spark.stop()


def ensure_heatmap_topic(bootstrap: str) -> None:
    TopicClusters(Brokers(bootstrap, TIMEOUT_MS / 1000)).ensure([SHARED_PLANS[HEATMAP]])


def start(
    spark: SparkSession, settings: Settings, shape: Shape, folder: str, publisher: HeatmapPublisher
) -> StreamingQuery:
    """The query, with its checkpoint in `folder`."""
    return (
        transforms.counted(read(spark, settings, shape), shape, settings.watermark_ms)
        .writeStream.outputMode("update")
        .foreachBatch(publisher)
        .option("checkpointLocation", folder)
        .trigger(processingTime=TRIGGER)
        .start()
    )


def read(spark: SparkSession, settings: Settings, shape: Shape) -> DataFrame:
    """The positions, parsed: by our own source while it reads, or from messages of Spark's connector."""
    options = {
        "bootstrap": settings.bootstrap,
        "subscribePattern": QUADRANT_PATTERN,
        "startingOffsets": settings.starting,
        "maxOffsetsPerTrigger": str(BATCH_MESSAGES_MAX),
        "maxInputPartitions": "1",
        "group": GROUP,
        "timeoutMs": str(TIMEOUT_MS),
    }
    if settings.connector == "kafka":
        messages = spark.readStream.format("penstock").options(**options, connector="kafka").load()
        return transforms.positions(messages, shape.grid)
    spark.dataSource.register(PositionsDataSource)
    grid = shape.grid.to_json().decode()
    return spark.readStream.format(FORMAT).options(**options, **{GRID: grid}).load()


class _Job:
    def __init__(self, spark: SparkSession, settings: Settings, shape: Shape, folder: str, say: Say) -> None:
        self._spark = spark
        self._settings = settings
        self._shape = shape
        self._folder = folder
        self._say = say
        self._ready = False

    def run(self, stop: Stop) -> None:
        failures = 0
        while not stop.is_set():
            publisher = HeatmapPublisher(self._settings.bootstrap, TIMEOUT_MS)
            try:
                self._watch(self._start(publisher), publisher, stop)
            except (*SPARK_ERRORS, SourceError, PenstockError) as error:
                failures = 1 if publisher.totals is not None else failures + 1
                self._say(f"starting again: {passing(publisher.error or error, failures)}")
                stop.wait(RESTART_PAUSE_S)
            finally:
                publisher.close()

    def _start(self, publisher: HeatmapPublisher) -> StreamingQuery:
        return start(self._spark, self._settings, self._shape, self._folder, publisher)

    def _watch(self, query: StreamingQuery, publisher: HeatmapPublisher, stop: Stop) -> None:
        """Until it fails or is to stop."""
        said, counted_then = time.monotonic(), None
        try:
            while not stop.wait(WAIT_S):
                if not query.isActive:
                    query.awaitTermination()  # raises what it failed with
                    return
                if not self._ready and _is_running(query):
                    self._ready = True
                    self._say(f"ready heatmap checkpoint={self._settings.checkpoint}")
                now = time.monotonic()
                if publisher.totals is not None and now - said >= SAY_EVERY_S:
                    sent = publisher.totals.sent
                    self._say(progress_line(publisher, (sent - (counted_then or sent)) / (now - said)))
                    said, counted_then = now, sent
        finally:
            with suppress(Py4JError, ConnectionError):  # Java has died: it is the other error that tells
                self._spark.sparkContext.setLogLevel("OFF")  # a batch that is interrupted is no error
                query.stop()
                self._spark.sparkContext.setLogLevel("ERROR")


def _is_running(query: StreamingQuery) -> bool:
    return query.lastProgress is not None or not query.status["message"].startswith("Initializing")


def progress_line(publisher: HeatmapPublisher, per_second: float) -> str:
    totals = publisher.totals
    assert totals is not None
    behind = "" if totals.newest is None else f", {publisher.written_at - totals.newest / 1000:.1f} s behind"
    others = ", ".join(f"{getattr(totals, name):,} {name}" for name in ("late", "duplicate", "malformed"))
    return f"{totals.counted:,} counted ({per_second:,.0f} per second), {others}{behind}"


def passing(error: Exception, failures: int) -> str:
    """The error in one line, if the query may be started again; JobError otherwise."""
    kind, line = own_kind(error), line_of(error)
    if kind in _NEVER_PASSES or (not kind and failures >= FAILURES_MAX):
        raise JobError(line) from error
    return line
