"""`spark.read.format("penstock")` of a whole topic, beside Spark's own Kafka connector on the same broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from bench import targets
from bench.maven import jars
from bench.process import UnavailableError, run_load
from bench.table import Row, compared, unavailable
from bench.topics import fresh_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.peers.base import Peer
    from bench.session import Session

MESSAGES = 400_000
MESSAGE_BYTES = 1_000
PARTITIONS = 2
THREADS = 2
WARM_UP_ROUNDS = 2
WHAT = "format('penstock'): scan of a topic, 1 KB"
CONNECTOR_VERSION: Final = "4.2.0"
"""The newest that the registry has. It runs on Spark 4.3; the rest is what it is built with."""
CONNECTOR: Final = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)


def measure(session: Session) -> list[Row]:
    against = f"Spark's connector {CONNECTOR_VERSION}"
    if "penstock-os" not in session.use("penstock-os"):
        return [unavailable(WHAT, against, targets.SCAN_VS_CONNECTOR, session.missing["penstock-os"])]
    peer = session.peer("penstock-os")
    try:
        spark = start_spark()
    except (ImportError, UnavailableError) as error:
        return [unavailable(WHAT, against, targets.SCAN_VS_CONNECTOR, str(error))]
    try:
        with fresh_topic(session, peer, partitions=PARTITIONS) as topic:
            count = fill(peer, topic, MESSAGES // 10 if session.quick else MESSAGES)
            rates = rounds(session, spark, peer, topic, count)
    finally:
        spark.stop()
    return [compared(WHAT, against, rates["penstock"], rates["kafka"], "msg/s", targets.SCAN_VS_CONNECTOR)]


def start_spark() -> SparkSession:
    from penstock.spark import session as spark_session

    folder = jars(f"spark-kafka-{CONNECTOR_VERSION}", CONNECTOR, transitive=False)
    config = {"spark.jars": ",".join(map(str, sorted(folder.glob("*.jar"))))}
    return spark_session(f"local[{THREADS}]", config=config)


def fill(peer: Peer, topic: str, count: int) -> int:
    load = run_load(
        "kafka_produce",
        bootstrap=peer.bootstrap,
        topic=topic,
        size=MESSAGE_BYTES,
        count=count,
        seconds=60,
        partitions=PARTITIONS,
    )
    return int(load["messages"])


def rounds(
    session: Session, spark: SparkSession, peer: Peer, topic: str, count: int
) -> dict[str, list[float]]:
    """Interleaved, messages per second; the first rounds warm the JVM up and do not count."""
    rates: dict[str, list[float]] = {"penstock": [], "kafka": []}
    for number in range(WARM_UP_ROUNDS + session.rounds):
        if number > WARM_UP_ROUNDS and session.out_of_time:
            break
        for connector in sorted(rates, reverse=bool(number % 2)):
            frame = (
                spark.read.format("penstock")
                .options(bootstrap=peer.bootstrap, subscribe=topic, connector=connector)
                .load()
            )
            began = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            if number >= WARM_UP_ROUNDS:
                rates[connector].append(count / (time.perf_counter() - began))
        if number == 0 and frame.count() != count:
            raise RuntimeError(f"{frame.count()} messages instead of {count}")
    return rates
