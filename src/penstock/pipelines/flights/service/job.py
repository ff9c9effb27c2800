"""The Flights service: uploads in, results and states of jobs out. Only here is the session touched.

A query that fails is started again from its checkpoint, by a driver that loads its ledger anew, as often as
that happens. Only what no repetition can help ends the service: an option that makes no sense, another
service that has taken over. When Spark's Java process dies, this process ends too, and whoever started it
starts it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from penstock.client.errors import PenstockError
from penstock.client.kafka.cluster import Cluster as Brokers
from penstock.client.kafka.topic_clusters import TopicClusters
from penstock.flights.topics import AIRPORTS, ITINERARIES, PLANS, REQUESTS
from penstock.pipelines.flights.service.driver import TASKS_PER_CORE, Driver
from penstock.pipelines.flights.service.failures import is_lasting, is_of_brokers, is_passing
from penstock.pipelines.flights.service.folder import Folder
from penstock.pipelines.flights.service.heartbeats import Heartbeats
from penstock.pipelines.flights.service.ledger import Limits
from penstock.pipelines.flights.service.source import FORMAT, STAGING, FlightsDataSource
from penstock.pipelines.flights.starting import SERVICE
from penstock.spark.errors import SourceError
from penstock.spark.failures import SPARK_ERRORS, line_of
from penstock.spark.options import Connection
from penstock.spark.session_start import own_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.stop import Stop
    from penstock.spark.launch import Java

GROUP: Final = "penstock-flights"
"""Progress is committed under this name, so that the service's lag can be seen."""
TRIGGER: Final = "100 milliseconds"
"""Batches begin at least so far apart: without uploads the machine is left alone."""
BATCH_MESSAGES_MAX: Final = 512
TIMEOUT_MS: Final = 30_000
WAIT_S: Final = 0.1
EXPIRE_EVERY_S: Final = 2.0
PAUSE_S_MIN: Final = 0.5
PAUSE_S_MAX: Final = 15.0
WARY_AFTER: Final = 5
"""Failures of one batch in a row that brokers have nothing to do with."""

Say = Callable[[str], None]


class ServiceError(Exception):
    """The service cannot go on; the message is one line."""


class JavaDiedError(Exception):
    """All is to be started again."""


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    data: str
    limits: Limits = field(default_factory=Limits)

    @property
    def connection(self) -> Connection:
        return Connection(self.bootstrap, TIMEOUT_MS)


def run(settings: Settings, master: str | None, stop: Stop, say: Say, java: Java | None = None) -> None:
    """Runs until `stop` is set, on a Java that was started ahead (starting.py) or is started now.

    Raises ServiceError, JavaDiedError, FolderError or SparkSetupError.
    """
    folder = Folder(settings.data)
    with folder.claimed():
        ensure_topics(settings.bootstrap, stop, say)
        with Heartbeats(settings.connection, settings.limits) as heartbeats:
            with own_interrupts():
                spark = SERVICE.session(master, java, with_source=False)
            try:
                Service(spark, settings, folder, heartbeats, say).run(stop)
            except (Py4JError, ConnectionError) as error:
                raise JavaDiedError("Spark: its Java process has died") from error
            finally:
                with suppress(Py4JError, ConnectionError):  # nothing is left to be stopped when Java has died
                    spark.stop()


def ensure_topics(bootstrap: str, stop: Stop, say: Say) -> None:
    """Waits for brokers that are not there yet."""
    while not stop.is_set():
        try:
            clusters = TopicClusters(Brokers(bootstrap, TIMEOUT_MS / 1000))
            clusters.ensure(PLANS.values())
            return
        except PenstockError as error:
            say(f"waiting for brokers: {error}")
            stop.wait(PAUSE_S_MIN)


class Service:
    def __init__(
        self, spark: SparkSession, settings: Settings, folder: Folder, heartbeats: Heartbeats, say: Say
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._folder = folder
        self._heartbeats = heartbeats
        self._say = say
        self._failures = 0
        """Without any batch in between."""
        self._suspicious = 0
        """Of these, those that brokers have nothing to do with."""

    def run(self, stop: Stop) -> None:
        while not stop.is_set():
            driver = None
            try:
                driver = self._driver()
                self._watch(start(self._spark, self._settings, self._folder, driver), driver, stop)
            except (*SPARK_ERRORS, SourceError, PenstockError) as error:
                self._failed(driver, error)
                stop.wait(min(PAUSE_S_MAX, PAUSE_S_MIN * 2 ** min(self._failures - 1, 10)))
            finally:
                if driver is not None:
                    driver.close()

    def _driver(self) -> Driver:
        return Driver(
            self._spark,
            self._settings.connection,
            self._folder,
            self._settings.limits,
            wary=self._suspicious >= WARY_AFTER,
        )

    def _failed(self, driver: Driver | None, error: Exception) -> None:
        """ServiceError, unless the query may be started again."""
        cause = error if driver is None else driver.error or error
        if is_lasting(cause):
            raise ServiceError(line_of(cause)) from cause
        progress = driver is not None and driver.done is not None
        self._failures = 1 if progress else self._failures + 1
        self._suspicious = (0 if progress else self._suspicious) + (not is_of_brokers(cause))
        self._heartbeats.state = "starting"
        again = "" if is_passing(cause) else f" ({type(cause).__name__})"
        self._say(f"starting again: {line_of(cause)}{again}")

    def _watch(self, query: StreamingQuery, driver: Driver, stop: Stop) -> None:
        """Until it fails or is to stop."""
        driver.identify(str(query.id), str(query.runId))
        looked = 0.0
        try:
            while not stop.wait(WAIT_S):
                if not query.isActive:
                    query.awaitTermination()  # raises what it failed with
                    return
                if self._heartbeats.state != "running" and is_running(query):
                    self._heartbeats.state = "running"
                    self._say(f"ready flights data={self._settings.data}")
                self._heartbeats.batch = driver.done
                now = time.monotonic()
                if now - looked >= EXPIRE_EVERY_S:
                    looked = now
                    for job in driver.due(time.time_ns() // 1_000_000):
                        self._heartbeats.expire(job)
        finally:
            with suppress(Py4JError, ConnectionError):  # Java has died: it is the other error that tells
                self._spark.sparkContext.setLogLevel("OFF")  # a batch that is interrupted is no error
                query.stop()
                self._spark.sparkContext.setLogLevel("ERROR")


def start(spark: SparkSession, settings: Settings, folder: Folder, driver: Driver) -> StreamingQuery:
    spark.dataSource.register(FlightsDataSource)
    options = {
        "bootstrap": settings.bootstrap,
        "subscribe": ",".join((AIRPORTS, ITINERARIES, REQUESTS)),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH_MESSAGES_MAX),
        "maxInputPartitions": str(TASKS_PER_CORE * spark.sparkContext.defaultParallelism),
        "group": GROUP,
        "timeoutMs": str(TIMEOUT_MS),
        # Jobs that miss something of what is gone are abandoned in time; the others go on.
        "failOnDataLoss": "false",
        STAGING: str(folder.raw),
    }
    return (
        spark.readStream.format(FORMAT)
        .options(**options)
        .load()
        .writeStream.foreachBatch(driver)
        .option("checkpointLocation", str(folder.checkpoint))
        .trigger(processingTime=TRIGGER)
        .start()
    )


def is_running(query: StreamingQuery) -> bool:
    return query.lastProgress is not None or not query.status["message"].startswith("Initializing")
