"""Two logs that parted find back to what they have in common, whatever happened to them before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.replication.divergence import LogEnd, maybe_divergence, truncation_offset
from penstock.storage.epochs import LeaderEpochs


class Log:
    """Entries are (epoch, value): equal ones are one entry."""

    def __init__(self, entries: list[tuple[int, int]]) -> None:
        self.entries: list[tuple[int, int]] = []
        self.log_start_offset = 0
        self.epochs = LeaderEpochs()
        for entry in entries:
            self.append(entry)

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    flushed_end_offset = log_end_offset

    def append(self, entry: tuple[int, int]) -> None:
        self.epochs.assign(entry[0], len(self.entries))
        self.entries.append(entry)

    def truncate(self, offset: int) -> None:
        del self.entries[offset:]
        self.epochs.truncate_end(offset)


def reconcile(leader: Log, follower: Log) -> int:
    """As a follower does at the start of an epoch; returns how many questions it took."""
    for questions in range(1, 100):
        end = LogEnd(follower.epochs.latest, follower.log_end_offset)
        diverging = maybe_divergence(leader, end)
        if diverging is None:
            return questions
        offset = truncation_offset(follower, diverging)
        assert offset < follower.log_end_offset, "no progress"
        follower.truncate(offset)
    raise AssertionError("it does not end")


def histories() -> st.SearchStrategy[tuple[Log, Log]]:
    """Each epoch is led by one of two nodes, which first takes over a prefix of either log, or keeps its own,
    and then appends; the other gets some of it, or nothing."""
    step = st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 4), st.booleans())

    def play(steps: list[tuple[bool, int, int, bool]]) -> tuple[Log, Log]:
        logs = (Log([]), Log([]))
        for epoch, (second_leads, appended, copied, hears) in enumerate(steps, 1):
            leader, follower = (logs[1], logs[0]) if second_leads else logs
            if hears:
                reconcile(leader, follower)
            first = leader.log_end_offset
            for number in range(appended):
                leader.append((epoch, number))
            if hears:
                missing = leader.entries[follower.log_end_offset :]
                for entry in missing[: first - follower.log_end_offset + copied if missing else 0]:
                    follower.append(entry)
        return logs

    return st.lists(step, max_size=12).map(play)


@given(histories())
def test_the_follower_keeps_what_they_have_in_common_and_nothing_else(
    logs: tuple[Log, Log],
) -> None:
    leader, follower = logs
    common = 0
    for mine, theirs in zip(leader.entries, follower.entries, strict=False):
        if mine != theirs:
            break
        common += 1
    leader.append((99, 0))  # a new leader begins its epoch before it serves
    reconcile(leader, follower)
    assert follower.entries == leader.entries[: len(follower.entries)]
    assert follower.log_end_offset == common


def test_an_empty_log_agrees_with_every_other() -> None:
    assert maybe_divergence(Log([(3, 0)]), LogEnd(-1, 0)) is None


def test_a_follower_that_is_ahead_in_the_same_epoch_is_told_its_end() -> None:
    assert maybe_divergence(Log([(1, 0), (1, 1)]), LogEnd(1, 3)) == LogEnd(1, 2)


def test_an_empty_log_that_led_must_forget_its_epoch() -> None:
    follower = Log([])
    follower.epochs.assign(2, 0)  # it was elected and wrote nothing
    leader = Log([(1, 0), (3, 0)])
    diverging = maybe_divergence(leader, LogEnd(2, 0))
    assert diverging is not None
    follower.truncate(truncation_offset(follower, diverging))
    for entry in leader.entries:
        follower.append(entry)
