"""A leader that hangs, and a cluster that was killed whole: when does an ordinary producer write again?

Of `penstock up`, with librdkafka's own settings: its patience is a part of what an application sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import targets
from bench.peers import penstock_up
from bench.process import UnavailableError, run_load
from bench.table import Row, compared, unavailable

if TYPE_CHECKING:
    from bench.peers.penstock_up import SupervisedCluster
    from bench.session import Session

LIMIT_SECONDS: Final = 3.0
AGAINST: Final = f"{LIMIT_SECONDS:.0f} s"
TOPIC_SECONDS_MAX: Final = 60
PAUSED: Final = "leader paused to the next acknowledged write, librdkafka's own settings"
CASES: Final = {
    PAUSED: ("pause", False),
    f"{PAUSED}, the leader being the active controller": ("pause", True),
    "all nodes killed, from their restart to the next acknowledged write": ("kill", False),
}


def measure(session: Session) -> list[Row]:
    session.use()
    target = targets.BACK_VS_LIMIT
    try:
        with penstock_up.running(session.directory("penstock-up")) as cluster:
            return [
                compared(what, AGAINST, seconds, [LIMIT_SECONDS] * len(seconds), "s", target)
                for what, (fault, is_controller) in CASES.items()
                for seconds in [rounds(session, cluster, fault, leader_is_controller=is_controller)]
            ]
    except UnavailableError as error:
        return [unavailable(what, AGAINST, target, str(error)) for what in CASES]


def rounds(
    session: Session, cluster: SupervisedCluster, fault: str, *, leader_is_controller: bool
) -> list[float]:
    def run(_: str) -> float:
        return back_after(session, cluster, fault, leader_is_controller=leader_is_controller)

    return session.in_turn([fault], run)[fault]


def back_after(
    session: Session, cluster: SupervisedCluster, fault: str, *, leader_is_controller: bool
) -> float:
    controller = cluster.active_controller()
    others = [broker for broker in range(1, penstock_up.BROKERS + 1) if broker != controller]
    replicas = [controller, *others] if leader_is_controller else [*others, controller]
    topic = session.unique("back")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    new_topic = NewTopic(topic, num_partitions=1, replica_assignment=[replicas])
    admin.create_topics([new_topic])[topic].result(TOPIC_SECONDS_MAX)
    pids = {broker["id"]: broker["pid"] for broker in cluster.wait_well(topic)["brokers"]}
    load = run_load(
        "kafka_back",
        bootstrap=cluster.bootstrap,
        topic=topic,
        fault=fault,
        pids=[pids[broker] for broker in replicas],
        supervisor_pid=cluster.supervisor_pid,
    )
    cluster.wait_well(topic)
    return float(load["seconds"])
