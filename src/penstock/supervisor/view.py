"""The cluster as its supervisor tells it, from what it sees of the processes and what the nodes say: pure.

The shape is that of `penstock cluster status --json`. Each node answers with its own view, which may be a
moment old, and knows the high watermarks of its own replicas only. The active controller's view is the
newest; the high watermark of a partition is its leader's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.supervisor.layout import ClusterLayout, NodeSpec

Answers = Mapping[int, Mapping[str, Any]]
"""What nodes say at `/v1/cluster`, by their ids."""

RUNNING: Final = "running"
PAUSED: Final = "paused"
FENCED: Final = "fenced"


@dataclass(frozen=True, slots=True)
class Seen:
    """A process."""

    pid: int | None
    state: str
    """`down`, `starting`, `running` or `paused`."""


def cluster_status(
    layout: ClusterLayout, processes: Mapping[int, Seen], answers: Answers, services: Mapping[str, Seen]
) -> dict[str, Any]:
    controller = active_controller(answers)
    newest = newest_answer(answers, controller)
    told = {broker["id"]: broker for broker in newest.get("brokers", [])}
    return {
        "cluster_id": layout.cluster_id,
        "controller": controller,
        "brokers": [
            broker_status(node, layout.rack_of(node), processes[node.id], told.get(node.id))
            for node in layout.brokers
        ],
        "topics": [topic_status(topic, answers) for topic in newest.get("topics", [])],
        "nodes": [
            {"id": node.id, **described(processes[node.id]), "roles": list(node.roles)}
            for node in layout.dedicated
        ]
        + [{"id": name, **described(service), "roles": [name]} for name, service in services.items()],
    }


def active_controller(answers: Answers) -> int | None:
    """Who says so itself, and if that is nobody or several, whom most name."""
    named = {node_id: answer.get("controller") for node_id, answer in answers.items()}
    itself = [node_id for node_id, controller in named.items() if node_id == controller]
    if len(itself) == 1:
        return itself[0]
    votes = Counter(each for each in named.values() if isinstance(each, int))
    return max(sorted(votes), key=lambda node_id: votes[node_id]) if votes else None


def newest_answer(answers: Answers, controller: int | None) -> Mapping[str, Any]:
    if controller is not None and controller in answers:
        return answers[controller]
    return answers[min(answers)] if answers else {}


def is_fenced(answers: Answers, node_id: int | str) -> bool:
    """Whether the others have fenced the broker of this node."""
    newest = newest_answer(answers, active_controller(answers))
    return any(
        broker["id"] == node_id and broker.get("state") == FENCED for broker in newest.get("brokers", [])
    )


def described(seen: Seen) -> dict[str, Any]:
    return {"pid": seen.pid, "state": seen.state}


def broker_status(
    node: NodeSpec, rack: str | None, seen: Seen, told: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A process that runs may still be fenced, which only the nodes know."""
    state = seen.state
    if state == RUNNING and told is not None and told.get("state") == FENCED:
        state = FENCED
    return {
        "id": node.id,
        "host": told["host"] if told is not None else node.host,
        "port": told["port"] if told is not None else node.port,
        "pid": seen.pid,
        "state": state,
        "roles": list(node.roles),
        **({"load": told["load"]} if told is not None and "load" in told else {}),
        "rack": rack,
    }


def topic_status(topic: Mapping[str, Any], answers: Answers) -> dict[str, Any]:
    partitions = []
    for partition in topic["partitions"]:
        leader = answers.get(partition["leader"]) if partition["leader"] is not None else None
        end = high_watermark(leader, topic["name"], partition["partition"]) if leader is not None else None
        partitions.append({**partition, "high_watermark": end})
    return {**topic, "partitions": partitions}


def high_watermark(answer: Mapping[str, Any], topic: str, partition: int) -> int | None:
    for each in answer.get("topics", []):
        if each["name"] == topic:
            for candidate in each["partitions"]:
                if candidate["partition"] == partition:
                    end = candidate["high_watermark"]
                    return end if isinstance(end, int) else None
    return None


# The cluster log


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader has read: the last offset of each of the two parts of the log.

    Each part goes on counting whatever restarts, so a cursor stays good over the end of a supervisor.
    """

    cluster: int = -1
    supervisor: int = -1

    def __str__(self) -> str:
        return f"{self.cluster}.{self.supervisor}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """ValueError if it is none."""
        cluster, dot, supervisor = text.partition(".")
        if len(text) > 40 or not dot:
            raise ValueError(f"{text[:40]!r} is not of the form N.M")
        return cls(int(cluster), int(supervisor))


def merged_log(
    cluster: Sequence[Mapping[str, Any]], supervisor: Sequence[Mapping[str, Any]], after: Cursor
) -> dict[str, Any]:
    """Both parts behind the cursor, in the order of their times, and where to go on."""
    events = [{"source": "cluster", **event} for event in cluster if event["offset"] > after.cluster]
    events += [
        {"source": "supervisor", **event} for event in supervisor if event["offset"] > after.supervisor
    ]
    events.sort(key=lambda event: event["timestamp_ms"])  # stable: each part keeps its order
    after = Cursor(
        max((event["offset"] for event in cluster), default=after.cluster),
        max((event["offset"] for event in supervisor), default=after.supervisor),
    )
    return {"events": events, "after": str(after)}
