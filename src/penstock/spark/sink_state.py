"""What a sink remembers in the cluster: its last micro batch, recorded by the transaction that wrote it.

The memory is an offset of the consumer group `penstock.sink.<name>`, at partition 0 of every topic the batch
went to; its metadata is

    penstock.sink {"batch": 12, "query": "…", "run": "…", "runs": […], "queries": {…}}

and the offset itself counts the records of this kind, so that the newest is the one with the largest.

`query` is the id that is in a checkpoint and outlives restarts; batches are counted in a query. `run` is new
with every start of it. A run that is among the earlier `runs` has been taken over by a later one and may
write no more. One that is in neither place is new, and takes over. `queries` has the last batches of other
queries that wrote under the same name before: a new checkpoint counts from 0 again, and its batches are
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.groups.marks import SINK, state_of, with_state
from penstock.spark.errors import SinkFencedError, SourceError

RUNS_MAX: Final = 16
QUERIES_MAX: Final = 8


@dataclass(frozen=True)
class Batch:
    query: str
    run: str
    number: int


@dataclass(frozen=True)
class SinkState:
    last: Batch
    count: int = 1
    runs: tuple[str, ...] = ()
    """Before that of `last`, the newest first."""
    queries: Mapping[str, int] = field(default_factory=dict)
    """Besides that of `last`: the batch that each wrote last, the newest query first."""

    def has(self, batch: Batch) -> bool:
        if batch.query == self.last.query:
            return batch.number <= self.last.number
        return batch.number <= self.queries.get(batch.query, -1)

    def metadata(self) -> str:
        return with_state(
            SINK,
            {
                "batch": self.last.number,
                "query": self.last.query,
                "run": self.last.run,
                "runs": list(self.runs),
                "queries": dict(self.queries),
            },
        )


def is_new(state: SinkState | None, batch: Batch, name: str) -> bool:
    """Whether the batch is still to be written; SinkFencedError if not by this run."""
    if state is None:
        return True
    if batch.run != state.last.run and batch.run in state.runs:
        raise SinkFencedError(name)
    return not state.has(batch)


def after(state: SinkState | None, batch: Batch) -> SinkState:
    """The state that the transaction of the batch records."""
    if state is None:
        return SinkState(batch)
    last = state.last
    runs = state.runs if batch.run == last.run else (last.run, *state.runs)[:RUNS_MAX]
    queries = dict(state.queries)
    if batch.query != last.query:
        queries.pop(batch.query, None)
        queries = dict(list({last.query: last.number, **queries}.items())[:QUERIES_MAX])
    return SinkState(batch, state.count + 1, runs, queries)


def newest(offsets: Iterable[tuple[int, str | None]], name: str) -> SinkState | None:
    """The state in the offsets and metadata of a sink's group."""
    found = max(offsets, key=lambda offset: offset[0], default=None)
    if found is None:
        return None
    count, metadata = found
    kept = state_of(metadata, SINK)
    try:
        if kept is None:
            raise ValueError(metadata)
        last = Batch(str(kept["query"]), str(kept["run"]), int(kept["batch"]))
        return SinkState(last, count, tuple(kept["runs"]), dict(kept["queries"]))
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(
            f"sink {name!r}: the offset of its group says {metadata!r}, which no sink wrote; "
            "set the option sinkId to a name that nothing else uses"
        ) from error
