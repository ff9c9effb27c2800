"""What is on `flights.jobs`: the newest state of each job, as far as it is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.flights.topics import JOBS, RESULTS
from penstock.spark.cluster import Cluster
from penstock.spark.consumer import read_ranges
from penstock.spark.offsets import ranges
from penstock.spark.options import Topics, read_options

if TYPE_CHECKING:
    from penstock.spark.options import Connection


def read_states(connection: Connection) -> list[bytes]:
    """Of whoever holds the sink that writes them, so that none comes in between."""
    options = read_options(
        {"bootstrap": connection.bootstrap, "subscribe": JOBS, "timeoutMs": str(connection.timeout_ms)}
    ).for_batch()
    cluster = Cluster(connection)
    there = cluster.partitions(Topics(names=(JOBS,)))
    newest: dict[bytes, bytes | None] = {}
    asked = ranges(cluster.earliest(there), cluster.latest(there))
    for batch in read_ranges(asked, options) if asked else ():
        newest.update(zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True))
    return [value for value in newest.values() if value is not None]


def result_ends(cluster: Cluster) -> dict[int, int]:
    """By partition of `flights.results`, where it ends."""
    ends = cluster.latest(cluster.existing(Topics(names=(RESULTS,))))
    return {partition.partition: offset for partition, offset in ends.items()}
