"""What a client is told that asks for an offset behind the end of the log."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.broker.lifecycle import Lifecycle
from penstock.metadata.assignments import NewTopic
from penstock.replication.leader import PartitionLeader
from penstock.types import ErrorCode
from tests.unit.broker.in_process import InProcess, with_broker

FETCH = 1


async def error_behind_the_end(client: InProcess, version: int) -> ErrorCode:
    asked = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 10, "partition_max_bytes": 1}
    answer = await client.ask(
        FETCH,
        version,
        {
            "max_wait": timedelta(0),
            "min_bytes": 1,
            "max_bytes": 1,
            "isolation_level": 0,
            "topics": [{"topic": "t", "partitions": [asked]}],
        },
    )
    (found,) = answer.responses[0].partitions
    error: ErrorCode = found.error_code
    return error


@pytest.mark.parametrize("doubt", ["has_lease", "serves_offsets"])
def test_only_a_leader_that_knows_the_end_says_that_an_offset_is_out_of_range(
    doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is told so begins at the other end of the log, and reads all of it again."""
    owner = Lifecycle if doubt == "has_lease" else PartitionLeader

    async def work(client: InProcess) -> None:
        await client.broker.controller.create_topics([NewTopic("t")])
        await client.broker.controller.publisher.settled()
        assert await error_behind_the_end(client, 12) is ErrorCode.offset_out_of_range
        with monkeypatch.context() as patch:
            patch.setattr(owner, doubt, property(lambda _: False))
            assert await error_behind_the_end(client, 12) is ErrorCode.offset_not_available
            assert await error_behind_the_end(client, 10) is ErrorCode.not_leader_or_follower
        assert await error_behind_the_end(client, 10) is ErrorCode.offset_out_of_range

    with_broker(work)
