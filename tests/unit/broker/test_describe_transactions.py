"""Where transactions stand, as told by a coordinator that may have been replaced."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.broker.lifecycle import Lifecycle
from penstock.types import ApiError, ErrorCode
from tests.unit.broker.in_process import InProcess, with_broker

if TYPE_CHECKING:
    import pytest

FIND_COORDINATOR, INIT_PRODUCER_ID, DESCRIBE_TRANSACTIONS = 10, 22, 65


async def described(client: InProcess) -> Any:
    answer = await client.ask(DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["x"]})
    (state,) = answer.transaction_states
    return state


def test_they_are_told_by_whoever_is_known_to_coordinate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that was replaced while it stood still has lost its lease, and cannot write."""

    async def work(client: InProcess) -> None:
        await client.ask(FIND_COORDINATOR, 2, {"key": "x", "key_type": 1})
        body = {"transactional_id": "x", "transaction_timeout": timedelta(seconds=10)}
        owner = await client.ask(INIT_PRODUCER_ID, 4, body)
        partition = client.broker.transactions.shard("x").partition
        end_offset = partition.log.log_end_offset
        assert (await described(client)).producer_id == owner.producer_id
        assert partition.log.log_end_offset == end_offset, "nobody can have taken its place"
        monkeypatch.setattr(Lifecycle, "has_lease", property(lambda _: False))
        assert (await described(client)).producer_id == owner.producer_id
        assert partition.log.log_end_offset == end_offset + 1, "it has found out"

        async def refused(_batch: bytes) -> int:
            raise ApiError(ErrorCode.not_leader_or_follower)

        monkeypatch.setattr(partition, "append_own", refused)
        answer = await described(client)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.not_coordinator, -1)

    with_broker(work)
