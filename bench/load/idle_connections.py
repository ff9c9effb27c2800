"""Opens connections that say ApiVersions once and then nothing; holds them until its standard input ends."""

from __future__ import annotations

import resource
import socket
import struct
import sys

from bench.load.arguments import arguments

# Length, ApiVersions (18) version 0, correlation id 1, no client id.
HELLO = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def main() -> None:
    given = arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = []
    for _ in range(given["count"]):
        connection = socket.create_connection(("127.0.0.1", given["port"]), 10)
        connection.sendall(HELLO)
        if not connection.recv(4096):
            raise SystemExit("closed by the server")
        held.append(connection)
    print(len(held), flush=True)
    sys.stdin.read()
    for connection in held:
        connection.close()


if __name__ == "__main__":
    main()
