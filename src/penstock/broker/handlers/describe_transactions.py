"""DescribeTransactions (65), version 0: where the transactions of some ids stand.

Who ends a transaction by hand decides by it, so a coordinator that may have been replaced finds out first.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from penstock.transactions.records import NO_TIMESTAMP
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@api(65, 0, 0)
async def describe_transactions(request: DescribeTransactionsRequest, context: RequestContext) -> Body:
    return {
        "transaction_states": [
            {"transactional_id": transactional_id, **await _describe(transactional_id, context)}
            for transactional_id in request.transactional_ids
        ]
    }


async def _describe(transactional_id: str, context: RequestContext) -> dict[str, Any]:
    coordinator = context.broker.transactions
    try:
        await coordinator.prove(transactional_id)
        transaction = coordinator.maybe_transaction(transactional_id)
    except ApiError as error:
        return _nothing(error.code)
    if transaction is None or transaction.value is None:
        return _nothing(ErrorCode.transactional_id_not_found)
    value = transaction.value
    return {
        "error_code": ErrorCode.none,
        "transaction_state": value.state.value,
        "transaction_timeout": timedelta(milliseconds=value.timeout_ms),
        "transaction_start_time": EPOCH + timedelta(milliseconds=value.start_ms),
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": [where.partition for where in found]}
            for topic, found in groupby(sorted(value.partitions), key=lambda where: where.topic)
        ],
    }


def _nothing(error: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": error,
        "transaction_state": "",
        "transaction_start_time": EPOCH + timedelta(milliseconds=NO_TIMESTAMP),
        "producer_id": -1,
        "producer_epoch": -1,
    }
