"""How long a reader tries."""

from __future__ import annotations

import asyncio

import pytest

from penstock.gateway.kafka.errors import (
    KafkaUnavailableError,
    UnknownPartitionError,
    UnknownTopicError,
)
from penstock.gateway.kafka.patience import Patience
from penstock.gateway.kafka.reader_limits import ReaderLimits

QUICK = ReaderLimits(backoff_s_min=0.001, backoff_s_max=0.002, unavailable_s_max=0.05)


async def tries(problem: Exception, *, missing_s_max: float) -> int:
    patience = Patience("t-0", QUICK, missing_s_max=missing_s_max)
    count = 0
    while True:
        await patience.after(problem)
        count += 1


def test_brokers_that_do_not_answer_are_given_up_in_the_end() -> None:
    with pytest.raises(KafkaUnavailableError, match="t-0 is not available: no leader"):
        asyncio.run(tries(Exception("no leader"), missing_s_max=9))


def test_an_unknown_topic_is_told_at_once_unless_it_was_known() -> None:
    patience_ends = UnknownTopicError("t")
    for missing_s_max in (0.0, 0.01):
        with pytest.raises(UnknownTopicError, match="there is no topic 't'"):
            asyncio.run(tries(patience_ends, missing_s_max=missing_s_max))


def test_a_partition_that_never_was_is_not_waited_for() -> None:
    async def run() -> None:
        await Patience("t-9", QUICK, missing_s_max=60).after(UnknownPartitionError("t", 9))

    with pytest.raises(UnknownPartitionError, match="topic 't' has no partition 9"):
        asyncio.run(run())
