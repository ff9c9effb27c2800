"""A TCP connection between nodes that a test can block, hold back or break.

link = Link(broker.port)
…                       # the broker is advertised at link.port
link.hold_answers()
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tests.support.ports import free_port


class Link:
    """A TCP way to a port of this machine, which can be blocked in each direction, or closed."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._requests_flow, self._answers_flow = threading.Event(), threading.Event()
        self._holds_requests_from = 0
        self._sockets: set[socket.socket] = set()
        self._served: list[threading.Event] = []
        """For each connection: cleared once it has brought the answer that was to be the last."""
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        self._holds_requests_from = 0
        for each in self._served:
            each.set()
        self._requests_flow.set()
        self._answers_flow.set()
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Nobody can connect any more; connections stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
            listener.close()

    def close(self) -> None:
        """Connections break, what is held back is lost, and nobody can connect any more."""
        self.refuse()
        self._break_connections()
        self._requests_flow.set()
        self._answers_flow.set()

    def hold_answers(self) -> None:
        self._answers_flow.clear()

    def hold_requests_after_answer(self, *, bytes_min: int) -> None:
        """Let one more answer of that size through on each connection, and from then on no request."""
        self._holds_requests_from = bytes_min

    def block(self) -> None:
        """A partition of the network: whoever sends or connects hears nothing."""
        self._requests_flow.clear()
        self._answers_flow.clear()

    def unblock(self) -> None:
        """What was held back is lost: connections must begin anew."""
        self._break_connections()
        self.open()

    def _break_connections(self) -> None:
        with self._lock:
            broken, self._sockets = self._sockets, set()
        for each in broken:
            with suppress(OSError):  # the other side may have been faster
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            unserved = threading.Event()
            unserved.set()
            with self._lock:
                self._sockets |= {client, server}
                self._served.append(unserved)
            for source, sink, flow in (
                (client, server, self._requests_flow),
                (server, client, self._answers_flow),
            ):
                arguments = (source, sink, flow, unserved)
                threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, flow: threading.Event, unserved: threading.Event
    ) -> None:
        try:
            while data := source.recv(256 * 1024):
                if flow is self._requests_flow:
                    unserved.wait()
                elif 0 < self._holds_requests_from <= len(data):
                    unserved.clear()
                flow.wait()
                if sink not in self._sockets:
                    return  # broken while this was held back
                sink.sendall(data)
        except OSError:
            return  # one side has gone, and now the other
        finally:
            for each in (source, sink):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
