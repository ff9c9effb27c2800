"""`penstock cluster decommission`: a broker leaves a cluster for good, and nothing is less replicated for it.

UnregisterBroker, which no client library offers, is sent again and again: Penstock begins to move what the
broker holds, and says no until all of it is in sync on others. Apache Kafka would forget the broker at once,
with whatever it holds; therefore nothing is sent before the other side is known to be Penstock.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from confluent_kafka.admin import ConfigResource, ResourceType

from penstock.cli.cluster_requests import NoAnswerError, ask_broker
from penstock.cli.kafka import answer, cluster_metadata, connect
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json
from penstock.cli.output import CommandFailed, counted, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

    Tell = Callable[[int], None]
    """Called with the number of replicas that are left, whenever it was looked at."""

UNREGISTER_BROKER: Final = (64, 0)
SILENCE_S_MAX: Final = 30.0
"""Without an answer of the controller, as while another one is elected."""
ASK_AGAIN_S: Final = 0.5
OF_PENSTOCK: Final = "flush"
"""A config that brokers of Apache Kafka do not have."""


def decommission(
    node_id: Annotated[int, typer.Argument(metavar="NODE_ID", min=0, help="The broker that shall leave.")],
    wait: Annotated[
        bool, typer.Option(help="Until the broker is out; otherwise only begin to move what it holds.")
    ] = True,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Move all that a broker holds to the others, then take it out of the cluster for good."""
    admin = connect(bootstrap)
    require_penstock(admin, cluster_metadata(admin, bootstrap))
    move = Decommissioning(admin, bootstrap, node_id)
    held = move.left
    with progress(node_id, held, shown=not json) as tell:
        is_out = move.step(tell)
        while wait and not is_out:
            time.sleep(ASK_AGAIN_S)
            is_out = move.step(tell)
    if json:
        print_json({"broker": node_id, "replicas": held, "replicas_left": move.left, "unregistered": is_out})
    elif is_out:
        print(f"broker {node_id} is no longer part of the cluster")
    else:
        print("the same command, given again, says how much is left, and ends it")


@contextmanager
def progress(node_id: int, held: int, *, shown: bool) -> Iterator[Tell]:
    """A bar on a terminal, a line for each change elsewhere."""
    if not shown:
        yield lambda _left: None
    elif sys.stdout.isatty():
        with typer.progressbar(length=held, label=f"moving {counted(held, 'replica')}") as bar:
            yield lambda left: bar.update(max(0, held - left) - bar.pos)
    else:
        told: list[int] = []

        def tell(left: int) -> None:
            if left and [left] != told:
                print(f"broker {node_id} holds {counted(left, 'replica')}, to be moved", flush=True)
            told[:] = [left]

        yield tell


def require_penstock(admin: AdminClient, metadata: ClusterMetadata) -> None:
    brokers = sorted(metadata.brokers)
    if not brokers:
        raise CommandFailed("no broker of the cluster is running")
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(brokers[0]))]).values()
    if OF_PENSTOCK not in answer(future):
        raise CommandFailed(
            f"cluster {metadata.cluster_id} is not one of Penstock, which alone moves replicas by itself"
        )


class Decommissioning:
    def __init__(self, admin: AdminClient, bootstrap: str, broker_id: int) -> None:
        self.left = 0
        """Replicas on the broker, when it was last looked at."""
        self._admin = admin
        self._bootstrap = bootstrap
        self._broker_id = broker_id
        self._addresses: list[tuple[str, int]] = []
        self._was_there = self._look()

    def step(self, tell: Tell) -> bool:
        """Ask once, and tell how much is left; whether the broker is out."""
        is_out = self._ask()
        self._look()
        tell(self.left)
        return is_out

    def _look(self) -> bool:
        """Whether the broker is there."""
        metadata = cluster_metadata(self._admin, self._bootstrap)
        self.left = sum(
            self._broker_id in partition.replicas
            for topic in metadata.topics.values()
            for partition in topic.partitions.values()
        )
        # Whoever is about to leave may be gone before it has answered: it is asked last.
        brokers: list[Any] = sorted(metadata.brokers.values(), key=lambda each: each.id == self._broker_id)
        self._addresses = [(broker.host, broker.port) for broker in brokers]
        return self._broker_id in metadata.brokers or self.left > 0

    def _ask(self) -> bool:
        from penstock.types import ErrorCode

        deadline = time.monotonic() + SILENCE_S_MAX
        while True:
            code, message = self._answer()
            match code:
                case ErrorCode.none:
                    return True
                case ErrorCode.reassignment_in_progress:
                    return False
                case ErrorCode.broker_id_not_registered if self._was_there:
                    return True  # by a request whose answer was lost
                case ErrorCode.request_timed_out | ErrorCode.not_controller if time.monotonic() < deadline:
                    time.sleep(ASK_AGAIN_S)
                case _:
                    raise CommandFailed((message or code.name).rstrip("."))

    def _answer(self) -> tuple[Any, str | None]:
        """Of the first broker that gives one."""
        from penstock.types import ErrorCode

        reason = "no broker of the cluster is running"
        for host, port in self._addresses:
            try:
                told = ask_broker(host, port, UNREGISTER_BROKER, {"broker_id": self._broker_id})
            except NoAnswerError as error:
                reason = str(error)
            else:
                return told.error_code, told.error_message
        return ErrorCode.request_timed_out, reason
