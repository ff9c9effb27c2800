from __future__ import annotations

import pytest

from tests.sim.checking import BLOCKS, check_block
from tests.sim.transaction_history import TransactionHistory

EVERY = 4
"""A history takes about four times as long as one of replication, so that only so many blocks are run."""


@pytest.mark.parametrize("block", range(0, BLOCKS, EVERY))
def test_transactions_are_whole_whatever_happens(block: int) -> None:
    check_block(block, TransactionHistory, "tests/sim/test_transactions.py")


def test_a_history_of_transactions_is_the_same_every_time() -> None:
    histories = [TransactionHistory(7, is_detailed=True), TransactionHistory(7, is_detailed=True)]
    for history in histories:
        history.run()
    assert histories[0].world.trace == histories[1].world.trace
