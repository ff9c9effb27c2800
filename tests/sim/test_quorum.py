from __future__ import annotations

import pytest

from tests.sim.checking import BLOCKS, check_block
from tests.sim.quorum_history import QuorumHistory


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_quorum_agrees_whatever_happens(block: int) -> None:
    check_block(block, QuorumHistory, "tests/sim/test_quorum.py")
