"""The options of the data source, checked before anything else happens.

Names are those of Spark's own Kafka source where it has one, in upper or lower case. What begins with
`kafka.` is a setting of librdkafka, except for the few that the source depends on. An option nobody knows is
refused: a typing error in `maxOffsetsPerTrigger` must not go unnoticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from penstock.spark.errors import OptionError
from penstock.spark.offsets import Partition, from_json

EARLIEST: Final = -2
LATEST: Final = -1
TIMEOUT_MS_DEFAULT: Final = 60_000
KAFKA_PREFIX: Final = "kafka."

READ_NAMES: Final = (
    "bootstrap", "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp",
    "endingOffsets", "maxOffsetsPerTrigger", "maxInputPartitions", "group", "includeHeaders",
    "failOnDataLoss", "timeoutMs", "connector",
)  # fmt: skip
WRITE_NAMES: Final = ("bootstrap", "topic", "exactlyOnce", "sinkId", "staging", "timeoutMs", "connector")
SPARK_NAMES: Final = ("checkpointLocation", "queryName")
"""What Spark itself puts among the options of a stream's sink."""

_RESERVED: Final = {
    "group.id": "set the option 'group'",
    "auto.offset.reset": "set the option 'startingOffsets'",
    "enable.auto.commit": "progress is in Spark's checkpoint",
    "enable.auto.offset.store": "progress is in Spark's checkpoint",
    "enable.partition.eof": "the source needs it",
    "enable.idempotence": "the sink needs it",
    "transactional.id": "set the option 'sinkId'",
    "acks": "the sink waits for all in-sync replicas",
    "key.deserializer": "keys are binary",
    "value.deserializer": "values are binary",
    "key.serializer": "keys are binary or string columns",
    "value.serializer": "values are binary or string columns",
}

OffsetsByPartition = Mapping[Partition, int]
OffsetSpec = Literal["earliest", "latest"] | OffsetsByPartition


@dataclass(frozen=True)
class Topics:
    """Which topics or partitions are read: exactly one of the three is set."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: tuple[Partition, ...] | None = None


@dataclass(frozen=True)
class Connection:
    bootstrap: str
    timeout_ms: int
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of librdkafka, as the user gave them."""

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000


@dataclass(frozen=True)
class ReadOptions:
    connection: Connection
    topics: Topics
    starting: OffsetSpec | None
    starting_timestamp_ms: int | None
    ending: OffsetSpec | None
    max_offsets_per_trigger: int | None
    max_input_partitions: int | None
    """How many tasks read at most; without it each partition has its own."""
    group: str | None
    include_headers: bool
    fail_on_data_loss: bool

    def for_batch(self) -> ReadOptions:
        if self.max_offsets_per_trigger is not None:
            raise OptionError("maxOffsetsPerTrigger", "is for streams")
        if self.group is not None:
            raise OptionError("group", "is for streams: a batch has no progress to commit")
        if self.starting == "latest":
            raise OptionError("startingOffsets", "'latest' leaves nothing to read in a batch")
        return replace(
            self,
            starting="earliest" if self.starting is None else self.starting,
            ending="latest" if self.ending is None else self.ending,
        )

    def for_stream(self) -> ReadOptions:
        if self.ending is not None:
            raise OptionError("endingOffsets", "is for batches; a stream has no end")
        return replace(self, starting="latest" if self.starting is None else self.starting)


@dataclass(frozen=True)
class WriteOptions:
    connection: Connection
    topic: str | None
    exactly_once: bool
    sink_id: str | None
    staging: Path | None
    """None, in a stream that is exactly once, only if neither this nor a checkpoint in files was given."""

    def for_batch(self) -> WriteOptions:
        if self.sink_id is not None:
            raise OptionError("sinkId", "is for streams: a batch is not written twice")
        return self

    def for_stream(self) -> WriteOptions:
        if self.exactly_once and self.staging is None:
            raise OptionError(
                "staging",
                "is missing: a folder for rows that wait for their commit, shared by the driver and all "
                "executors; without it, the option checkpointLocation has to name a folder of this machine, "
                "or exactlyOnce has to be false",
            )
        return self


def read_options(options: Mapping[str, str]) -> ReadOptions:
    given = _Given(options, READ_NAMES, "reading")
    starting, timestamp = given.offsets("startingOffsets"), given.number("startingTimestamp", at_least=0)
    if starting is not None and timestamp is not None:
        raise OptionError("startingTimestamp", "cannot be combined with startingOffsets")
    ending = given.offsets("endingOffsets")
    if ending == "earliest" or (isinstance(ending, Mapping) and EARLIEST in ending.values()):
        raise OptionError("endingOffsets", "'earliest' (-2) cannot be an end")
    return ReadOptions(
        connection=_connection(given),
        topics=_topics(given),
        starting=starting,
        starting_timestamp_ms=timestamp,
        ending=ending,
        max_offsets_per_trigger=given.number("maxOffsetsPerTrigger", at_least=1),
        max_input_partitions=given.number("maxInputPartitions", at_least=1),
        group=given.text("group"),
        include_headers=given.flag("includeHeaders", default=True),
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    given = _Given(options, (*WRITE_NAMES, *SPARK_NAMES), "writing")
    exactly_once = given.flag("exactlyOnce", default=True)
    for name in ("sinkId", "staging"):
        if not exactly_once and given.text(name) is not None:
            raise OptionError(name, "cannot be combined with exactlyOnce=false")
    sink_id = given.text("sinkId")
    if sink_id is not None and not re.fullmatch("[A-Za-z0-9._-]{1,200}", sink_id):
        raise OptionError("sinkId", f"{sink_id!r} is not made of letters, digits, '.', '_' and '-'")
    return WriteOptions(_connection(given), given.text("topic"), exactly_once, sink_id, _staging(given))


class _Given:
    """The options as the user gave them, by lower-case name."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...], doing: str) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower() for name in known}
        for name in sorted(self._values):
            if name not in names and not name.startswith(KAFKA_PREFIX):
                raise OptionError(name, f"is unknown; {doing} takes {', '.join(known)} and kafka.*")

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise OptionError(name, "is empty")
        return value

    def number(self, name: str, *, at_least: int) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch("[0-9]{1,18}", value.strip()) or int(value) < at_least:
            raise OptionError(name, f"{value!r} is not a whole number of at least {at_least}")
        return int(value)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.strip().lower() not in ("true", "false"):
            raise OptionError(name, f"{value!r} is neither true nor false")
        return value.strip().lower() == "true"

    def json(self, name: str) -> object:
        try:
            return json.loads(self.text(name) or "")
        except ValueError as error:
            raise OptionError(name, f"is not JSON: {error}") from error

    def offsets(self, name: str) -> OffsetSpec | None:
        value = self.text(name)
        if value is None:
            return None
        match value.strip().lower():
            case "earliest":
                return "earliest"
            case "latest":
                return "latest"
        if not value.lstrip().startswith("{"):
            raise OptionError(name, f"{value!r} is neither earliest, latest nor JSON")
        try:
            found = from_json(self.json(name))
        except ValueError as error:
            raise OptionError(name, str(error)) from error
        for partition, offset in found.items():
            if offset < EARLIEST:
                raise OptionError(name, f"{offset} of {partition} is no offset (-2 is earliest, -1 latest)")
        return found

    def settings(self) -> dict[str, str]:
        found = {
            name.removeprefix(KAFKA_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(KAFKA_PREFIX) and name != "kafka.bootstrap.servers"
        }
        for name, reason in _RESERVED.items():
            if name in found:
                raise OptionError(KAFKA_PREFIX + name, f"cannot be set: {reason}")
        return found


def _connection(given: _Given) -> Connection:
    connector = (given.text("connector") or "penstock").lower()
    if connector == "kafka":
        raise OptionError("connector", "'kafka' needs a session made by penstock.spark.session()")
    if connector != "penstock":
        raise OptionError("connector", f"{connector!r} is neither penstock nor kafka")
    bootstrap, kafka_name = given.text("bootstrap"), given.text("kafka.bootstrap.servers")
    if bootstrap and kafka_name and bootstrap != kafka_name:
        raise OptionError("bootstrap", "differs from kafka.bootstrap.servers; one of them is enough")
    address = bootstrap or kafka_name
    if address is None:
        raise OptionError("bootstrap", "is missing; it is the address of a broker, as 127.0.0.1:9092")
    return Connection(address, given.number("timeoutMs", at_least=1) or TIMEOUT_MS_DEFAULT, given.settings())


def _staging(given: _Given) -> Path | None:
    """The folder that was given, or one beside the checkpoint where that is in files."""
    folder, checkpoint = given.text("staging"), given.text("checkpointLocation")
    if folder is not None:
        path = _local_path(folder)
        if path is None:
            raise OptionError("staging", f"{folder!r} is not a folder of this machine's file system")
        return path
    path = None if checkpoint is None else _local_path(checkpoint)
    return None if path is None else path.with_name(f"{path.name}-staging")


def _local_path(text: str) -> Path | None:
    """The path in `file:/a/b` or `/a/b`; None for what is in another kind of file system."""
    scheme, colon, rest = text.strip().partition(":")
    if not colon or "/" in scheme:
        return Path(text.strip()).absolute()
    return Path(re.sub("^//[^/]*", "", rest)) if scheme.lower() == "file" else None


def _topics(given: _Given) -> Topics:
    names = ("subscribe", "subscribePattern", "assign")
    present = [name for name in names if given.text(name) is not None]
    if len(present) != 1:
        problem = (
            f"cannot be combined with {present[1]}"
            if present
            else "is missing (or subscribePattern, or assign)"
        )
        raise OptionError(present[0] if present else "subscribe", problem)
    match present[0]:
        case "subscribe":
            topics = [name.strip() for name in (given.text("subscribe") or "").split(",")]
            if not all(topics):
                raise OptionError("subscribe", "has an empty name; it takes topics with commas between them")
            return Topics(names=tuple(sorted(set(topics))))
        case "subscribePattern":
            pattern = given.text("subscribePattern") or ""
            try:
                re.compile(pattern)
            except re.error as error:
                raise OptionError(
                    "subscribePattern", f"{pattern!r} is not a regular expression: {error}"
                ) from error
            return Topics(pattern=pattern)
        case _:
            return Topics(assigned=_assigned(given.json("assign")))


def _assigned(value: object) -> tuple[Partition, ...]:
    """The partitions in `{"topic": [0, 1]}`."""
    if not isinstance(value, dict) or not value:
        raise OptionError("assign", 'is not of the form {"topic": [0, 1]}')
    found = set()
    for topic, partitions in value.items():
        if not isinstance(partitions, list) or not partitions:
            raise OptionError("assign", f"topic {topic!r} has no list of partitions")
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
                raise OptionError(
                    "assign", f"{partition!r} of topic {topic!r} is not the number of a partition"
                )
            found.add(Partition(topic, partition))
    return tuple(sorted(found))
