"""Full load on a cluster whose nodes are well: nobody is taken for dead, and nobody falls behind.

PENSTOCK_LOAD_SECONDS is how long it lasts.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.support import full_load
from tests.support.cluster import Cluster
from tests.support.full_load import GROUPS, PARTITIONS, WRITERS, Counters
from tests.support.topics import REQUEST_S_MAX, admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.process import BaseProcess
    from pathlib import Path

SECONDS = float(os.environ.get("PENSTOCK_LOAD_SECONDS", "6"))
"""Twice what it takes to be thought dead or behind, for brokers, controllers and followers."""
TOPIC = "load"
SEGMENT_BYTES = 16 * 1024 * 1024
DELETE_EVERY_S = 2.0
SPURIOUS = (
    "controller_elected",
    "broker_fenced",
    "broker_registered",
    "leader_elected",
    "leader_lost",
    "isr_shrunk",
)


@pytest.mark.timeout(SECONDS + 240)
def test_no_election_fence_or_shrink_under_full_load(tmp_path: Path) -> None:
    counters = Counters.create()
    processes: list[BaseProcess] = []
    with Cluster(tmp_path, brokers=3) as cluster:
        create_topic(cluster)
        try:
            writers, readers = full_load.start(cluster.bootstrap, TOPIC, counters)
            processes += [*writers, *readers]
            wait_until(lambda: all(counters.acknowledged) and all(counters.read), "all begin", timeout_s=60)
            before = cluster.last_event()
            began = time.monotonic()
            rush(cluster, counters, processes)
            rate = sum(counters.acknowledged) / (time.monotonic() - began)
            counters.stop_writing.set()
            end(writers)
            wait_until(lambda: counters.is_all_read or complain(counters), "all is read", timeout_s=120)
            counters.stop_reading.set()
            end(readers)
        finally:
            for process in processes:
                process.kill()
        assert counters.complained() == []
        assert list(counters.sent) == list(counters.acknowledged)
        events = cluster.events(before)
        assert [event for event in events if event["kind"] in SPURIOUS] == []
        kinds = dict(Counter(event["kind"] for event in events))
        print(
            f"{sum(counters.acknowledged):,} messages of {WRITERS} writers in {SECONDS:g} s ({rate:,.0f}/s),"
            f" all read by {GROUPS} groups; the cluster log meanwhile: {kinds}"
        )


def create_topic(cluster: Cluster) -> None:
    client = admin(cluster.bootstrap)
    topic = NewTopic(TOPIC, PARTITIONS, 3, config={"segment.bytes": str(SEGMENT_BYTES)})
    (future,) = client.create_topics([topic]).values()
    future.result(REQUEST_S_MAX)
    cluster.wait_healed([TOPIC])


def rush(cluster: Cluster, counters: Counters, processes: Sequence[BaseProcess]) -> None:
    """Let them run, and delete what everybody has read."""
    client = admin(cluster.bootstrap)
    end_at = time.monotonic() + SECONDS
    while time.monotonic() < end_at:
        counters.stop_writing.wait(min(DELETE_EVERY_S, SECONDS))
        complain(counters)
        assert all(process.is_alive() for process in processes)
        # Of all writers, what a group has read of a partition is what it holds up to where the group is.
        places = [
            min(sum(counters.read_of(group)[partition::PARTITIONS]) for group in range(GROUPS))
            for partition in range(PARTITIONS)
        ]
        deleted = client.delete_records(
            [TopicPartition(TOPIC, partition, offset) for partition, offset in enumerate(places)]
        )
        for future in deleted.values():
            future.result(REQUEST_S_MAX)


def complain(counters: Counters) -> bool:
    """False; or the end of the test, with what a client said."""
    complaints = counters.complained()
    assert complaints == [], "\n".join(complaints)
    return False


def end(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.join(full_load.FLUSH_S_MAX + 30)
        assert process.exitcode == 0, f"exit code {process.exitcode}"
