"""The leader of a partition is killed with -9: how long until the next write is acknowledged?

A broker that was also the active controller takes more with it, so the two cases are told apart. After each
round the broker is started again and must be back in sync before anything else happens. What a producer with
librdkafka's own settings sees of other faults is in back.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench import targets
from bench.cluster import BROKERS
from bench.measure import back
from bench.measure.replicated import AGAINST, NAMES
from bench.process import run_load
from bench.table import Row, compared, unavailable
from bench.topics import replicated_topic

if TYPE_CHECKING:
    from bench.cluster import Cluster
    from bench.session import Session

WHAT: Final = "leader kill -9 to the next acknowledged write"
CASES: Final = {WHAT: False, f"{WHAT}, the leader being the active controller": True}


def placed(controller: int, *, leader_is_controller: bool) -> tuple[int, ...]:
    """The replicas of the partition, the leader first."""
    others = [broker for broker in BROKERS if broker != controller]
    return (controller, *others) if leader_is_controller else (*others, controller)


def fail_over(session: Session, cluster: Cluster, *, leader_is_controller: bool) -> float:
    replicas = placed(cluster.active_controller(), leader_is_controller=leader_is_controller)
    leader = cluster.nodes[replicas[0]]
    with replicated_topic(session.unique("failover"), cluster, [replicas]) as topic:
        load = run_load("kafka_failover", bootstrap=cluster.bootstrap, topic=topic, leader_pid=leader.pid)
        leader.kill()
        leader.start()
        leader.wait_ready()
        cluster.wait_in_sync(topic, [set(replicas)])
        check_kept(cluster, topic, load["messages"])
    return float(load["seconds"])


def check_kept(cluster: Cluster, topic: str, acknowledged: int) -> None:
    """A quick fail-over that lost something would be no achievement."""
    found = cluster.end_offset(topic)
    if found < acknowledged:
        raise RuntimeError(f"{cluster.name}: {topic} has {found} of {acknowledged} messages")


def measure(session: Session) -> list[Row]:
    return [*measure_killed(session), *back.measure(session)]


def measure_killed(session: Session) -> list[Row]:
    up = session.use(*NAMES)
    target = targets.FAILOVER_VS_KAFKA
    if len(up) < len(NAMES):
        reason = " / ".join(session.missing[name] for name in NAMES if name in session.missing)
        return [unavailable(WHAT, AGAINST, target, reason)]
    rows = []
    for what, is_controller in CASES.items():

        def run(name: str, is_controller: bool = is_controller) -> float:
            return fail_over(session, session.cluster(name), leader_is_controller=is_controller)

        seconds = session.in_turn(up, run)
        ours, theirs = (seconds[name] for name in NAMES)
        rows.append(compared(what, AGAINST, ours, theirs, "s", target))
    return rows
