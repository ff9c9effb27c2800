"""The topics of the Flights service: their names and what they are made of.

| topic | key | value | kept |
|---|---|---|---|
| `flights.itineraries`, `flights.airports` | job | a chunk, see records.py | as the cluster keeps topics |
| `flights.requests` | job | that a job is wanted, or is to be deleted | as the cluster keeps topics |
| `flights.jobs` | job | what has become of it | the newest of each key |
| `flights.results` | job | rows of the answers | as the cluster keeps topics |
| `flights.heartbeats` | service | that it lives | the newest of each key, for an hour |

Only the service writes to `flights.jobs` and `flights.results`, in transactions: readers want what is
committed. Which partition a record is in means nothing to the service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.client.topic_plan import TopicPlan

ITINERARIES: Final = "flights.itineraries"
AIRPORTS: Final = "flights.airports"
REQUESTS: Final = "flights.requests"
JOBS: Final = "flights.jobs"
RESULTS: Final = "flights.results"
HEARTBEATS: Final = "flights.heartbeats"

PARTITIONS: Final = 4
HOUR_MS: Final = 3_600_000
SEGMENT_MS: Final = 600_000
"""Compaction leaves the newest segment alone, so it must not live for long."""

_STAMPED_BY_BROKERS: Final = {"message.timestamp.type": "LogAppendTime"}
"""When something came is not for its sender to say: jobs expire by it."""

STATE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of what is kept of a job: it names every file that was staged for it."""

FILE_TOPICS: Final[Mapping[str, str]] = {"airports": AIRPORTS, "itineraries": ITINERARIES}
"""By the name of the file in addresses and states."""

PLANS: Final[Mapping[str, TopicPlan]] = {
    plan.name: plan
    for plan in (
        TopicPlan(ITINERARIES, PARTITIONS, _STAMPED_BY_BROKERS),
        TopicPlan(AIRPORTS, PARTITIONS, _STAMPED_BY_BROKERS),
        TopicPlan(REQUESTS, 1, _STAMPED_BY_BROKERS),
        TopicPlan(
            JOBS,
            1,
            {
                "cleanup.policy": "compact",
                "segment.ms": str(SEGMENT_MS),
                "max.message.bytes": str(STATE_BYTES_MAX),
            },
        ),
        TopicPlan(RESULTS, PARTITIONS),
        TopicPlan(
            HEARTBEATS,
            1,
            {
                "cleanup.policy": "compact,delete",
                "retention.ms": str(HOUR_MS),
                "segment.ms": str(SEGMENT_MS),
            },
        ),
    )
}
