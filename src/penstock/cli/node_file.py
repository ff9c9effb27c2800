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

    [groups]
    group_size_max = 500

Every key has a default; an unknown key is refused, because a typing error must not be a default in disguise.
"""

from __future__ import annotations

import re
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.cli.output import CommandFailed
from penstock.config import KIB, ClusterLimits, Limits
from penstock.groups.limits import GroupLimits
from penstock.transactions.limits import TransactionLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

T = TypeVar("T")

LOG_LEVELS = ("debug", "info", "warning", "error")
FLUSHES = ("commit", "os")
STORAGES = ("file", "memory")
BALANCER = ("on", "propose", "off")
BOTH_ROLES = {"broker", "controller"}
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
PORT_MAX = 65_535
PARTITIONS_MAX = 10_000
OFFSETS_PARTITIONS_MAX = 1_000
BYTES_MIN = 64 * KIB
"""A lower limit would shut out ordinary clients."""
MILLISECONDS_MIN = 100
HOST = re.compile(r"[A-Za-z0-9._:%-]{1,255}")
"""A name or an address of either family. Whether it exists is for the system to say."""
RACK_CHARACTERS_MAX = 255
CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
        settings = node_settings(tomllib.loads(text))
        check_roles(settings)
        return settings
    except (ValueError, NodeFileError) as error:  # a number of 5,000 digits is no TOMLDecodeError
        raise NodeFileError(f"{path}: {error}") from error
    except RecursionError as error:
        raise NodeFileError(f"{path}: nested too deeply") from error


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


def check_roles(settings: Mapping[str, Any]) -> None:
    """Whether roles and controllers fit together; who votes must be the same in every node's file."""
    node_id, roles = settings.get("node_id", 1), settings.get("roles", frozenset(BOTH_ROLES))
    controllers = settings.get("controllers", {})
    if "controller" in roles:
        if controllers and node_id not in controllers:
            raise NodeFileError(f"controllers: node {node_id} has the role, and is not in the list")
    elif not controllers:
        raise NodeFileError("controllers: a node that is none itself needs at least one")
    elif node_id in controllers:
        raise NodeFileError(f"controllers: node {node_id} is in the list, and has not the role")


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


def whole_number(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = of_type(value, int, "a whole number")
        if not lowest <= number <= highest:
            raise NodeFileError(f"{number} is not between {lowest} and {highest}")
        return number

    return read


def read_address(value: Any) -> tuple[str, int]:
    if isinstance(value, list):
        if len(value) != 1:
            raise NodeFileError("more than one address is not available yet")
        value = value[0]
    text = of_type(value, str, "an address of the form host:port")
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not HOST.fullmatch(host) or not re.fullmatch("[0-9]{1,5}", port) or int(port) > PORT_MAX:
        raise NodeFileError(f"{text!r} is not of the form host:port")
    return host, int(port)


def read_remote_address(value: Any) -> tuple[str, int]:
    """One that others connect to, so that port 0 has no meaning."""
    host, port = read_address(value)
    if port == 0:
        raise NodeFileError(f"{value!r} has no port to connect to")
    return host, port


def read_listeners(value: Any) -> dict[str, Any]:
    host, port = read_address(value)
    return {"host": host, "port": port}


def read_advertised(value: Any) -> dict[str, Any]:
    host, port = read_remote_address(value)
    return {"advertised_host": host, "advertised_port": port}


def read_roles(value: Any) -> dict[str, Any]:
    roles = of_type(value, list, "a list of roles")
    if not roles or any(role not in tuple(BOTH_ROLES) for role in roles):
        raise NodeFileError(f"{value!r} is not a list of {' and '.join(sorted(BOTH_ROLES))}")
    return {"roles": frozenset(roles)}


def read_controllers(value: Any) -> dict[str, Any]:
    controllers = {}
    for entry in of_type(value, list, "a list of id@host:port"):
        number, at, address = of_type(entry, str, "of the form id@host:port").partition("@")
        if not re.fullmatch("[0-9]{1,10}", number) or int(number) > INT_MAX or not at:
            raise NodeFileError(f"{entry!r} is not of the form id@host:port")
        if int(number) in controllers:
            raise NodeFileError(f"controller {int(number)} is named twice")
        controllers[int(number)] = read_remote_address(address)
    return {"controllers": controllers}


def read_storage(value: Any) -> str:
    if not isinstance(value, str) or "://" not in value:
        return one_of(*STORAGES)(value)
    # No message shows the address: it may hold a password.
    if not value.startswith(("postgresql://", "postgres://")) or not value.isprintable():
        raise NodeFileError("an address has to be of the form postgresql://user@host:port/database")
    return value


def read_data(value: Any) -> Path:
    from pathlib import Path

    text = of_type(value, str, "a path")
    if not text or "\0" in text:
        raise NodeFileError(f"{text!r} is not a path")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise NodeFileError(f"{text!r}: {error}") from error


def read_rack(value: Any) -> str:
    rack = of_type(value, str, "a name")
    if not 0 < len(rack) <= RACK_CHARACTERS_MAX:
        raise NodeFileError(f"not a name of 1 to {RACK_CHARACTERS_MAX} characters")
    return rack


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
    check_topics(defaults)
    return {"topic_defaults": defaults}


def check_topics(defaults: Mapping[str, str]) -> None:
    from penstock.metadata.configs import check_node_defaults  # only where a file has the table
    from penstock.types import ApiError

    try:
        check_node_defaults(defaults)
    except ApiError as error:
        raise NodeFileError(str(error)) from error
    if int(defaults.get("num.partitions", 1)) > PARTITIONS_MAX:
        # Kafka would allow it, but a controller creates no more at once.
        raise NodeFileError(f"num.partitions: more than {PARTITIONS_MAX}")


def read_name(value: Any, pattern: re.Pattern[str]) -> str:
    name = of_type(value, str, "a name")
    if not pattern.fullmatch(name):
        raise NodeFileError(f"{name!r} is not a name of letters, digits, - and _")
    return name


def read_limits(
    kind: type[Limits] | type[GroupLimits] | type[TransactionLimits] | type[ClusterLimits], value: Any
) -> Limits | GroupLimits | TransactionLimits | ClusterLimits:
    given = of_type(value, dict, "a table")
    known = {field.name for field in fields(kind)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise NodeFileError(f"unknown limit {unknown[0]!r}; known are {', '.join(sorted(known))}")
    limits = {}
    for name, number in given.items():
        try:
            limits[name] = range_of_limit(name)(number)
        except NodeFileError as error:
            raise NodeFileError(f"{name}: {error}") from None
    read = kind(**limits)
    if isinstance(read, ClusterLimits) and read.controller_election_ms_min > read.controller_election_ms_max:
        raise NodeFileError("controller_election_ms_min: it is more than controller_election_ms_max")
    if isinstance(read, ClusterLimits) and read.balancer_calm_percent >= read.balancer_busy_percent:
        raise NodeFileError(
            "balancer_calm_percent: leaders would go to and fro unless it is below …_busy_percent"
        )
    return read


def range_of_limit(name: str) -> Callable[[Any], int]:
    if name.endswith("_percent"):
        return whole_number(1, 100)
    if name in LIMITS_FROM_NOTHING:
        return whole_number(0, INT_MAX)
    if name.endswith("_bytes_max"):
        return whole_number(BYTES_MIN, LONG_MAX if name == "total_bytes_max" else INT_MAX)
    return whole_number(
        MILLISECONDS_MIN if "_ms" in name else 1, LONG_MAX if "retention" in name else INT_MAX
    )


LIMITS_FROM_NOTHING = ("initial_rebalance_delay_ms", "offset_metadata_bytes_max", "connections_reserved")


def read_http_port(value: Any) -> dict[str, Any]:
    """`false` switches the endpoint off."""
    return {"http_port": None if value is False else whole_number(0, PORT_MAX)(value)}


def read_host(value: Any) -> str:
    host = of_type(value, str, "a name or an address")
    if not HOST.fullmatch(host):
        raise NodeFileError(f"{host!r} is not a name or an address")
    return host


def read_hosts(value: Any) -> tuple[str, ...]:
    return tuple(read_host(each) for each in of_type(value, list, "a list of names"))


def stored_as(name: str, read: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: read(value)}


READERS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "id": stored_as("node_id", whole_number(0, INT_MAX)),
    "roles": read_roles,
    "listeners": read_listeners,
    "insecure": stored_as("insecure", lambda value: of_type(value, bool, "true or false")),
    "advertised": read_advertised,
    "controllers": read_controllers,
    "data": stored_as("data", read_data),
    "storage": stored_as("storage", read_storage),
    "flush": stored_as("flush", one_of(*FLUSHES)),
    "log_level": stored_as("log_level", one_of(*LOG_LEVELS)),
    "rack": stored_as("rack", read_rack),
    "balancer": stored_as("balancer", one_of(*BALANCER)),
    "http_host": stored_as("http_host", read_host),
    "http_port": read_http_port,
    "http_names": stored_as("http_names", read_hosts),
    "auto_create_topics": stored_as(
        "auto_create_topics", lambda value: of_type(value, bool, "true or false")
    ),
    "offsets_topic_partitions": stored_as(
        "offsets_topic_partitions", whole_number(1, OFFSETS_PARTITIONS_MAX)
    ),
    "transactions_topic_partitions": stored_as(
        "transactions_topic_partitions", whole_number(1, OFFSETS_PARTITIONS_MAX)
    ),
    "retention_check_ms": stored_as("retention_check_ms", whole_number(MILLISECONDS_MIN, INT_MAX)),
    "compaction_check_ms": stored_as("compaction_check_ms", whole_number(MILLISECONDS_MIN, INT_MAX)),
    "high_watermark_checkpoint_ms": stored_as(
        "high_watermark_checkpoint_ms", whole_number(MILLISECONDS_MIN, INT_MAX)
    ),
    "repair_check_ms": stored_as("repair_check_ms", whole_number(MILLISECONDS_MIN, INT_MAX)),
    "scrub_interval_ms": stored_as("scrub_interval_ms", whole_number(MILLISECONDS_MIN, INT_MAX)),
    "scrub_bytes_per_second": stored_as("scrub_bytes_per_second", whole_number(BYTES_MIN, INT_MAX)),
    "topics": read_topics,
    "limits": stored_as("limits", partial(read_limits, Limits)),
    "cluster": stored_as("cluster", partial(read_limits, ClusterLimits)),
    "cluster_id": stored_as("cluster_id", lambda value: read_name(value, CLUSTER_ID)),
    "supervisor": stored_as("supervisor", read_data),
    "groups": stored_as("groups", partial(read_limits, GroupLimits)),
    "transactions": stored_as("transactions", partial(read_limits, TransactionLimits)),
}
"""How each key of the file is read, checked and named in NodeConfig."""
