from __future__ import annotations

import pytest

from penstock.groups.group import Group
from penstock.groups.limits import GroupLimits
from penstock.groups.states import TRANSITIONS, GroupState


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(GroupState)
    reached = {GroupState.EMPTY}
    for _ in GroupState:
        reached |= {to for state in reached for to in TRANSITIONS[state]}
    assert reached == set(GroupState)


def test_nothing_leads_out_of_dead() -> None:
    assert not TRANSITIONS[GroupState.DEAD]
    group = Group("g", GroupLimits(), 0)
    group.die(0)
    with pytest.raises(AssertionError):
        group.prepare_rebalance(0)
