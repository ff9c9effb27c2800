"""ListTransactions (66), version 0: the transactions that this broker coordinates.

Filters by state and by producer id; empty ones let everything pass, and names of states that there are not
are told back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.transactions.states import TransactionState
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.list_transactions.v0.request import ListTransactionsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(66, 0, 0)
async def list_transactions(request: ListTransactionsRequest, context: RequestContext) -> Body:
    await context.broker.transactions.load_all()
    try:
        transactions = context.broker.transactions.transactions()
    except ApiError as error:
        return {"error_code": error.code, "unknown_state_filters": (), "transaction_states": ()}
    known = {state.value for state in TransactionState}
    wanted = {name for name in request.state_filters if name in known}
    return {
        "error_code": ErrorCode.none,
        "unknown_state_filters": [name for name in request.state_filters if name not in known],
        "transaction_states": [
            {
                "transactional_id": each.transactional_id,
                "producer_id": each.value.producer_id,
                "transaction_state": each.value.state.value,
            }
            for each in transactions
            if each.value is not None
            and (not request.state_filters or each.value.state.value in wanted)
            and (not request.producer_id_filters or each.value.producer_id in request.producer_id_filters)
        ],
    }
