"""The states of a group, and the only ways between them.

Empty               no members; there may be committed offsets
PreparingRebalance  members are asked to join again; JoinGroup waits
CompletingRebalance all have joined; SyncGroup waits for the leader's assignment
Stable              all have, or can fetch, their assignment
Dead                deleted; nothing leads out of it
"""

from __future__ import annotations

import enum
from types import MappingProxyType


class GroupState(enum.Enum):
    """The values are the names that ListGroups and DescribeGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
        GroupState.PREPARING_REBALANCE: frozenset({GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
        GroupState.COMPLETING_REBALANCE: frozenset({GroupState.STABLE, GroupState.PREPARING_REBALANCE}),
        GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
        GroupState.DEAD: frozenset(),
    }
)
