"""A TCP proxy that loses answers: what a client sees of a server that dies after it did what it was asked.

    with LosingProxy(gateway.port) as proxy:
        proxy.lose_answer(then=gateway.kill)
        …                                    # at proxy.url

The next answer is awaited and thrown away, `then` is called, and the connection to the client is closed.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

CHUNK_BYTES = 64 * 1024


class LosingProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.lost = 0
        self._then: Callable[[], object] | None = None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def lose_answer(self, *, then: Callable[[], object] = lambda: None) -> None:
        """Of the next request, on whatever connection it comes."""
        with self._lock:
            self._then = then

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target_port))
        except OSError:
            client.close()  # the server is away, and so are we
            return
        with self._lock:
            self._open |= {client, server}
        for source, sink, losing in ((client, server, False), (server, client, True)):
            thread = threading.Thread(target=self._copy, args=(source, sink, losing), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _copy(self, source: socket.socket, sink: socket.socket, losing: bool) -> None:
        with contextlib.suppress(OSError):  # either side may go at any time; then both do
            while data := source.recv(CHUNK_BYTES):
                if losing and (then := self._take()) is not None:
                    self.lost += 1
                    then()
                    break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _take(self) -> Callable[[], object] | None:
        with self._lock:
            then, self._then = self._then, None
            return then

    def __enter__(self) -> LosingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._open:
            end.close()
