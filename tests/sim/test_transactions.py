from __future__ import annotations

import pytest

from tests.sim.checking import BLOCKS, check_block
from tests.sim.transaction_history import TransactionHistory


@pytest.mark.parametrize("block", range(BLOCKS))
def test_transactions_are_whole_whatever_happens(block: int) -> None:
    check_block(block, TransactionHistory, "tests/sim/test_transactions.py")
