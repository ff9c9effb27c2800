from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.shiviz import trace_lines

PATTERN = re.compile(r"(?P<host>\S*) (?P<clock>{.*})\n(?P<event>.*)")
"""What the command's help tells to give to ShiViz, as Python writes it."""
KINDS = [
    "controller_elected",
    "broker_registered",
    "leader_elected",
    "isr_shrunk",
    "node_ended",
    "node_started",
]

Line = tuple[str, dict[str, int], str]


def event(kind: str, text: str, *nodes: int, source: str = "cluster", **more: Any) -> dict[str, Any]:
    return {"source": source, "kind": kind, "text": text, "nodes": list(nodes), **more}


def traced(*events: dict[str, Any]) -> list[Line]:
    lines = list(trace_lines(events))
    pairs = ["\n".join(lines[i : i + 2]) for i in range(0, len(lines), 2)]
    found = [PATTERN.fullmatch(pair) for pair in pairs]
    assert all(found)
    return [(each["host"], json.loads(each["clock"]), each["event"]) for each in found if each is not None]


def test_an_election() -> None:
    assert traced(
        event("controller_elected", "node 1 is the active controller", 1),
        event("broker_registered", "broker 2 registered", 2),
        event("node_ended", "node 3 ended", 3, source="supervisor", cause="killed by SIGKILL"),
        event("broker_fenced", "broker 3 is fenced", 3, cause="refused\nconnection"),
        event("leader_elected", "t-0 is led by 2 (was 3)", 2, 3),
    ) == [
        ("node-1", {"node-1": 1}, "node 1 is the active controller"),
        ("node-2", {"node-2": 1}, "broker 2 registered"),
        ("node-1", {"node-1": 2, "node-2": 1}, "broker 2 registered"),
        ("node-3", {"node-3": 1}, "node 3 ended (killed by SIGKILL)"),
        ("supervisor", {"supervisor": 1, "node-3": 1}, "node 3 ended (killed by SIGKILL)"),
        ("node-1", {"node-1": 3, "node-2": 1}, "broker 3 is fenced (refused connection)"),
        ("node-1", {"node-1": 4, "node-2": 1}, "t-0 is led by 2 (was 3)"),
        ("node-2", {"node-2": 2, "node-1": 4}, "t-0 is led by 2 (was 3)"),
    ]


def test_a_new_controller_has_read_what_the_old_one_wrote() -> None:
    lines = traced(
        event("controller_elected", "1", 1),
        event("isr_shrunk", "a", 3),
        event("controller_elected", "2", 2),
    )
    assert lines[-1] == ("node-2", {"node-1": 2, "node-2": 1}, "2")


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.lists(st.integers(1, 4), max_size=3, unique=True)), max_size=30
    )
)
def test_clocks_are_vector_clocks(history: list[tuple[str, list[int]]]) -> None:
    """Each host counts its own events without a gap, and knows only of events that were before."""
    events = [
        event(kind, "x", *nodes, source="supervisor" if kind.startswith("node") else "cluster")
        for kind, nodes in history
    ]
    counts: dict[str, int] = {}
    before: dict[str, dict[str, int]] = {}
    for host, clock, _ in traced(*events):
        counts[host] = counts.get(host, 0) + 1
        assert clock[host] == counts[host]
        assert all(count <= counts[other] for other, count in clock.items())
        assert all(count <= clock[other] for other, count in before.get(host, {}).items())
        before[host] = clock
