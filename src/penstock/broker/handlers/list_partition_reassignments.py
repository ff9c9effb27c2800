"""ListPartitionReassignments (46), version 0: none, as with one broker nothing moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(46, 0, 0)
def list_partition_reassignments(
    _request: ListPartitionReassignmentsRequest, _context: RequestContext
) -> Body:
    return {"error_code": ErrorCode.none, "topics": ()}
