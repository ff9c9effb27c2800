from __future__ import annotations

import json

import pytest

from penstock.groups.marks import SINK, is_durable, is_position
from penstock.spark.errors import SinkFencedError, SourceError
from penstock.spark.sink_state import QUERIES_MAX, RUNS_MAX, Batch, SinkState, after, is_new, newest

METADATA_BYTES_MAX = 4096
"""Kafka's default of offset.metadata.max.bytes."""


def written(*batches: Batch) -> SinkState | None:
    """The state after these batches, through its text each time."""
    state: SinkState | None = None
    for batch in batches:
        assert is_new(state, batch, "s")
        state = after(state, batch)
        state = newest([(state.count, state.metadata())], "s")
    return state


def test_a_batch_is_written_once() -> None:
    state = written(Batch("q", "r1", 0), Batch("q", "r1", 1))
    assert not is_new(state, Batch("q", "r1", 1), "s")
    assert not is_new(state, Batch("q", "r2", 0), "s"), "also by a later run"
    assert is_new(state, Batch("q", "r2", 2), "s")
    assert is_new(state, Batch("q", "r2", 5), "s"), "batches without rows are not recorded"


def test_a_run_that_was_taken_over_is_fenced() -> None:
    state = written(Batch("q", "r1", 0), Batch("q", "r2", 1))
    for number in (0, 1, 2):
        with pytest.raises(SinkFencedError, match="sink 's': another query has taken it over"):
            is_new(state, Batch("q", "r1", number), "s")
    assert is_new(state, Batch("q", "r2", 2), "s")


def test_a_query_of_the_same_name_has_batches_of_its_own() -> None:
    state = written(Batch("old", "r1", 7), Batch("new", "r2", 0))
    assert not is_new(state, Batch("new", "r2", 0), "s")
    assert is_new(state, Batch("new", "r2", 1), "s")
    assert not is_new(state, Batch("old", "r3", 7), "s"), "the first is started again"
    assert is_new(state, Batch("old", "r3", 8), "s")
    state = written(Batch("old", "r1", 7), Batch("new", "r2", 0), Batch("old", "r3", 8))
    assert state is not None
    assert dict(state.queries) == {"new": 0}


def test_what_it_is_written_as() -> None:
    state = written(Batch("q", "r", 3))
    assert state is not None
    metadata = state.metadata()
    mark, _, text = metadata.partition(" ")
    assert mark == SINK
    assert json.loads(text)["batch"] == 3
    assert is_durable(metadata)
    assert not is_position(metadata)


def test_it_stays_small() -> None:
    uuid = "0" * 33
    batches = [Batch(f"{index:03}{uuid}", f"{index:03}{uuid}", 10**9 + index) for index in range(50)]
    state = written(*batches)
    assert state is not None
    assert (len(state.runs), len(state.queries)) == (RUNS_MAX, QUERIES_MAX)
    assert state.runs[0] == batches[-2].run
    assert next(iter(state.queries)) == batches[-2].query
    assert len(state.metadata()) < METADATA_BYTES_MAX


def test_the_newest_of_several_topics_counts() -> None:
    first = after(None, Batch("q", "r", 0))
    second = after(first, Batch("q", "r", 1))
    both = [(second.count, second.metadata()), (first.count, first.metadata())]
    assert newest(both, "s") == newest(reversed(both), "s") == second
    assert newest([], "s") is None


@pytest.mark.parametrize(
    "metadata", [None, "", "penstock.publisher {}", "penstock.sink {}", "penstock.sink 1"]
)
def test_offsets_of_somebody_else(metadata: str | None) -> None:
    with pytest.raises(SourceError, match=r"sink 's': the offset of its group says .* which no sink wrote"):
        newest([(3, metadata)], "s")
