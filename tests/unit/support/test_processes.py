"""Descendants as the recorder of costs sees them, look after look."""

from __future__ import annotations

import os
import subprocess

from tests.support.processes import Family, descendants


def test_a_family_is_all_descendants_and_nobody_else() -> None:
    family = Family(os.getpid())
    before = set(family.ticks())
    assert before == set(descendants(os.getpid()))
    # The shell tells the id of its child, and both end with the input.
    command = ["sh", "-c", "exec 3<&0; cat <&3 & echo $!; wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        found = family.ticks()
        assert found.keys() - before == {shell.pid, child}, "who is born later belongs to it"
        assert list(found).index(shell.pid) < list(found).index(child)
        shell.stdin.close()
    assert shell.pid not in family.ticks()
