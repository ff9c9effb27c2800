from __future__ import annotations

import pytest

from tests.sim.checking import BLOCKS, check_block
from tests.sim.replication_history import ReplicationHistory


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_is_lost_whatever_happens(block: int) -> None:
    check_block(block, ReplicationHistory, "tests/sim/test_replication.py")
