"""Fields that many answers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.metadata.alterations import ConfigOutcome
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from penstock.metadata.alterations import ResourceAlteration
    from penstock.metadata.image import BrokerImage
    from penstock.wire.shapes import Body

# Bits are Kafka's AclOperation codes. Without an authorizer everybody may do everything that there is.
ALL_TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
OPERATIONS_NOT_ASKED: Final = -(1 << 31)


def error_fields(error: ApiError | None) -> dict[str, Any]:
    if error is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": error.code, "error_message": error.message}


def fenced(error: ErrorCode, knows_it: bool) -> ErrorCode:
    """PRODUCER_FENCED in the words of a version whose clients do not know that code."""
    return ErrorCode.invalid_producer_epoch if error is ErrorCode.producer_fenced and not knows_it else error


def endpoint_fields(broker: BrokerImage) -> dict[str, Any]:
    return {"host": broker.host, "port": broker.port, "rack": broker.rack}


async def altered_configs(
    wanted: Sequence[ResourceAlteration], change: Awaitable[Sequence[ConfigOutcome]]
) -> Body:
    """The answer of both APIs that alter configs: what became of each resource."""
    try:
        outcomes = await change
    except ApiError as error:
        outcomes = [ConfigOutcome(each.resource, error) for each in wanted]
    return {
        "responses": [
            {
                "resource_type": outcome.resource.resource_type,
                "resource_name": outcome.resource.name,
                **error_fields(outcome.error),
            }
            for outcome in outcomes
        ]
    }
