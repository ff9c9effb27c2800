"""Which connections get in: places for clients, a limit for each address, and a reserve for other nodes.

Nodes and clients come to the same port, and who it is shows with the first request only. So when clients have
all their places, a connection that comes is on trial in the reserve: a known node's first request lets it
stay, anything else ends it. Places for trials cannot be held: who has been waiting longest makes room for who
comes, and a node's request follows its connection at once.

A node says who it is by its client id, and until nodes have certificates anybody can say so: the reserve is
against crowds, not against forgers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.peers.peers import NODE_CLIENT_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.broker.connection import Connection
    from penstock.config import Limits


class Admission:
    def __init__(self, limits: Limits, places: int) -> None:
        """`places`: how many connections the system allows."""
        self._reserved = min(limits.connections_reserved, places // 2)
        self._places = min(limits.connections_max, places - self._reserved)
        self._per_address_max = limits.connections_per_address_max
        self._clients: set[Connection] = set()
        self._on_trial: dict[Connection, None] = {}
        """In the order of their arrival."""
        self._nodes: set[Connection] = set()
        """Those that have passed their trial."""
        self._addresses: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._clients) + len(self._on_trial) + len(self._nodes)

    def __iter__(self) -> Iterator[Connection]:
        return iter((*self._clients, *self._on_trial, *self._nodes))

    def refusal(self, connection: Connection) -> str | None:
        """Take the connection in, or say why not."""
        address = connection.state.client_host
        is_one_too_many = self._addresses[address] >= self._per_address_max
        if len(self._clients) < self._places and not is_one_too_many:
            self._clients.add(connection)
        elif self._has_room_for_trial():
            self._on_trial[connection] = None
        elif is_one_too_many:
            return f"{self._addresses[address]} of that address are open"
        else:
            return f"{len(self)} are open"
        self._addresses[address] += 1
        return None

    def _has_room_for_trial(self) -> bool:
        if self._on_trial and len(self._on_trial) + len(self._nodes) >= self._reserved:
            next(iter(self._on_trial)).give_way()
        return len(self._on_trial) + len(self._nodes) < self._reserved

    def is_on_trial(self, connection: Connection) -> bool:
        return connection in self._on_trial

    def passed(self, connection: Connection) -> None:
        del self._on_trial[connection]
        self._nodes.add(connection)

    def forget(self, connection: Connection) -> None:
        if connection in self._on_trial:
            del self._on_trial[connection]
        elif connection in self._nodes:
            self._nodes.remove(connection)
        elif connection in self._clients:
            self._clients.remove(connection)
        else:
            return  # it was not let in, or is forgotten already
        address = connection.state.client_host
        self._addresses[address] -= 1
        if self._addresses[address] == 0:
            del self._addresses[address]


def node_called(client_id: str) -> int | None:
    """The id of the node that calls itself so."""
    number = client_id.removeprefix(NODE_CLIENT_ID)
    is_node = number != client_id and number.isascii() and number.isdigit() and len(number) <= 10
    return int(number) if is_node else None
