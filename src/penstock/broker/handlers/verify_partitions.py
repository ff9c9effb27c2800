"""AddPartitionsToTxn (24), version 4, between nodes: is the partition in the transaction? Adds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.transactions.messages import Identity
from penstock.types import ErrorCode, TopicPartition
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v4.request import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTransaction,
    )

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(24, 4, 4, between_nodes=True)
def verify_partitions(request: AddPartitionsToTxnRequest, context: RequestContext) -> Body:
    if not all(transaction.verify_only for transaction in request.transactions):
        return {"error_code": ErrorCode.invalid_request}
    return {
        "error_code": ErrorCode.none,
        "results_by_transaction": [_verify(each, context) for each in request.transactions],
    }


def _verify(transaction: AddPartitionsToTxnTransaction, context: RequestContext) -> dict[str, Any]:
    who = Identity(transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    verify = context.broker.transactions.verify_here
    return {
        "transactional_id": transaction.transactional_id,
        "topic_results": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {
                        "partition_index": index,
                        "partition_error_code": verify(who, TopicPartition(topic.name, index)),
                    }
                    for index in topic.partitions
                ],
            }
            for topic in transaction.topics
        ],
    }
