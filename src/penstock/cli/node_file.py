"""The configuration file of a node (TOML) and what it becomes: a NodeConfig.

    id = 1
    roles = ["broker", "controller"]
    listeners = "0.0.0.0:9092"
    advertised = "broker-1.example.org:9092"
    controllers = ["1@broker-1.example.org:9093"]
    data = "/var/lib/penstock"
    storage = "file"
    flush = "commit"
    log_level = "info"

    [topics]
    "retention.ms" = 86400000

    [limits]
    connections_max = 2000

Every key has a default; an unknown key is refused, because a typing error must not be a default in disguise.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.cli.output import CommandFailed
from penstock.config import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")

LOG_LEVELS = ("debug", "info", "warning", "error")
FLUSHES = ("commit", "os")
STORAGES = ("file", "memory")
BOTH_ROLES = {"broker", "controller"}


class NodeFileError(CommandFailed):
    """A configuration that can't be used; the message names the key."""


def read_node_file(path: Path) -> dict[str, Any]:
    """The settings of a file, by the names of NodeConfig's fields."""
    import tomllib  # most nodes start without a file

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise NodeFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NodeFileError(f"{path}: not UTF-8") from error
    try:
        return node_settings(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, NodeFileError) as error:
        raise NodeFileError(f"{path}: {error}") from error


def node_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(table.keys() - READERS.keys())
    if unknown:
        raise NodeFileError(f"unknown key {unknown[0]!r}; known are {', '.join(READERS)}")
    settings: dict[str, Any] = {}
    for name, value in table.items():
        try:
            settings.update(READERS[name](value))
        except NodeFileError as error:
            raise NodeFileError(f"{name}: {error}") from None
    return settings


def of_type(value: Any, kind: type[T], what: str) -> T:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise NodeFileError(f"{value!r} is not {what}")
    return value


def one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise NodeFileError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return read


def read_port(value: Any) -> int:
    port = of_type(value, int, "a port")
    if not 0 <= port < 65_536:
        raise NodeFileError(f"{port} is not a port")
    return port


def positive(value: Any) -> int:
    number = of_type(value, int, "a whole number")
    if number < 1:
        raise NodeFileError(f"{number} is less than 1")
    return number


def read_address(value: Any) -> tuple[str, int]:
    if isinstance(value, list):
        if len(value) != 1:
            raise NodeFileError("more than one address is not available yet")
        value = value[0]
    text = of_type(value, str, "an address of the form host:port")
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise NodeFileError(f"{text!r} is not of the form host:port")
    return host, int(port)


def read_listeners(value: Any) -> dict[str, Any]:
    host, port = read_address(value)
    return {"host": host, "port": port}


def read_advertised(value: Any) -> dict[str, Any]:
    host, port = read_address(value)
    return {"advertised_host": host, "advertised_port": port}


def read_roles(value: Any) -> dict[str, Any]:
    roles = set(of_type(value, list, "a list of roles"))
    if not roles or not roles <= BOTH_ROLES:
        raise NodeFileError(f"{value!r} is not a list of {' and '.join(sorted(BOTH_ROLES))}")
    if roles != BOTH_ROLES:
        raise NodeFileError("a node with only one of the roles is not available yet")
    return {}


def read_controllers(value: Any) -> dict[str, Any]:
    for entry in of_type(value, list, "a list of id@host:port"):
        number, at, address = of_type(entry, str, "of the form id@host:port").partition("@")
        if not number.isdecimal() or not at:
            raise NodeFileError(f"{entry!r} is not of the form id@host:port")
        read_address(address)
    if len(value) > 1:
        raise NodeFileError("more than one controller is not available yet")
    return {}


def read_storage(value: Any) -> str:
    if isinstance(value, str) and value.startswith(("postgresql://", "postgres://")):
        raise NodeFileError("the PostgreSQL backend is not available yet")
    return one_of(*STORAGES)(value)


def read_data(value: Any) -> Path:
    from pathlib import Path

    return Path(of_type(value, str, "a path")).expanduser()


def read_topics(value: Any) -> dict[str, Any]:
    """Defaults by Kafka's names, each as the string that Kafka's own files would hold."""
    defaults = {}
    for name, setting in of_type(value, dict, "a table").items():
        if isinstance(setting, list):
            defaults[name] = ",".join(map(str, setting))
        elif isinstance(setting, dict):
            raise NodeFileError(f'{name}: a table; put a name with dots in quotes, as in "retention.ms"')
        else:
            defaults[name] = str(setting).lower() if isinstance(setting, bool) else str(setting)
    return {"topic_defaults": defaults}


def read_limits(value: Any) -> dict[str, Any]:
    given = of_type(value, dict, "a table")
    known = {field.name for field in fields(Limits)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise NodeFileError(f"unknown limit {unknown[0]!r}; known are {', '.join(sorted(known))}")
    return {"limits": Limits(**{name: positive(number) for name, number in given.items()})}


def read_http_port(value: Any) -> dict[str, Any]:
    """`false` switches the endpoint off."""
    return {"http_port": None if value is False else read_port(value)}


def stored_as(name: str, read: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: read(value)}


READERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "id": stored_as("node_id", positive),
    "roles": read_roles,
    "listeners": read_listeners,
    "advertised": read_advertised,
    "controllers": read_controllers,
    "data": stored_as("data", read_data),
    "storage": stored_as("storage", read_storage),
    "flush": stored_as("flush", one_of(*FLUSHES)),
    "log_level": stored_as("log_level", one_of(*LOG_LEVELS)),
    "rack": stored_as("rack", lambda value: of_type(value, str, "a name")),
    "http_port": read_http_port,
    "auto_create_topics": stored_as(
        "auto_create_topics", lambda value: of_type(value, bool, "true or false")
    ),
    "offsets_topic_partitions": stored_as("offsets_topic_partitions", positive),
    "topics": read_topics,
    "limits": read_limits,
}
"""How each key of the file is read, checked and named in NodeConfig."""
