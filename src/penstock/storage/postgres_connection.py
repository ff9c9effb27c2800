"""Connections to PostgreSQL, and what their errors mean.

The address may hold a password, so nothing here lets it out: messages name the server and the database, and
what the driver says is cleaned before it is passed on.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import psycopg
from psycopg import conninfo

from penstock.storage.errors import StorageError

if TYPE_CHECKING:
    Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_S_MAX: Final = 5
CONNECT_S_MAX_ON_THE_LOOP: Final = 2
"""The least that the client library knows."""
SILENCE_S_MAX: Final = 10
"""How long a peer that has vanished without a word may go unnoticed."""
_SECRETS: Final = ("password", "sslpassword", "passfile")
_AWAY_CLASSES: Final = ("08", "53", "57")
"""Connection trouble, too few resources, and a server that is stopped or starting."""
_AWAY_STATES: Final = ("25006", "40001", "40P01")
"""A standby that may become the primary, and transactions that lost to others."""


class Database:
    def __init__(self, url: str, node_id: int) -> None:
        """StorageError if the URL is none. Nothing is connected yet."""
        try:
            if url.partition("://")[2].partition("/")[0].count("@") > 1:  # one of them is in the password
                raise psycopg.ProgrammingError
            parameters = conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            # The driver's own words quote the part that it does not understand, which may be the password.
            raise StorageError(
                "the storage URL is not of the form postgresql://user@host:port/database"
            ) from None
        self._parameters: dict[str, Any] = {
            "connect_timeout": CONNECT_S_MAX,
            "keepalives_idle": SILENCE_S_MAX,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": SILENCE_S_MAX * 1000,
            **parameters,
            "client_encoding": "UTF8",
            "application_name": f"penstock node {node_id} (process {os.getpid()} on {socket.gethostname()})",
        }
        self._secrets = [str(parameters[name]) for name in _SECRETS if parameters.get(name)]
        host = parameters.get("host") or parameters.get("hostaddr") or "the local server"
        name = parameters.get("dbname") or parameters.get("user") or "its default database"
        port = f":{parameters['port']}" if "port" in parameters else ""
        self.name = f"PostgreSQL database {name} on {host}{port}"

    def connect(self, **changes: int) -> Connection:
        """In autocommit mode; every statement is prepared when it is first used."""
        return psycopg.connect(**{**self._parameters, **changes}, autocommit=True, prepare_threshold=0)

    def failure(self, what: str, error: psycopg.Error) -> StorageError:
        """One line, such as `cannot connect to PostgreSQL database a on b: Connection refused`."""
        text = error.diag.message_primary or str(error) or type(error).__name__
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        count = 2 if lines[0].endswith(":") else 1  # the rest is good advice for somebody else
        return StorageError(f"cannot {what} {self.name}: {self._cleaned(' '.join(lines[:count]))}")

    def _cleaned(self, text: str) -> str:
        for secret in self._secrets:
            for form in (secret, quote(secret), quote(secret, safe="")):
                text = text.replace(form, "***")
        return text


def is_away(error: psycopg.Error) -> bool:
    """Whether the same may succeed later, on a new connection, with nothing wrong in what was asked."""
    state = error.sqlstate
    if state is None:  # from the client's side of the connection
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return state[:2] in _AWAY_CLASSES or state in _AWAY_STATES


def drop(connection: Connection | None) -> None:
    """Close it, whatever state it is in."""
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()
