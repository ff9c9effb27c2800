"""`penstock groups`: consumer groups, their lag, and setting them back."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.cli.kafka import (
    REQUEST_SECONDS_MAX,
    answer,
    cluster_metadata,
    connect,
    error_line,
    require_topic,
)
from penstock.cli.offsets import positions
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, check_name, is_offset
from penstock.cli.output import CommandFailed, print_json, print_table
from penstock.client.errors import PenstockError
from penstock.client.kafka.group_offsets import look_at_offsets

groups = typer.Typer(name="groups", help="Consumer groups and their lag.", no_args_is_help=True)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", callback=check_name)]
Partition = tuple[str, int]


def register(app: typer.Typer) -> None:
    app.add_typer(groups)


@groups.command("list")
def list_groups(bootstrap: Bootstrap = BOOTSTRAP, json: Json = False) -> None:
    """List the consumer groups."""
    admin = connect(bootstrap)
    cluster_metadata(admin, bootstrap)
    result = answer(admin.list_consumer_groups(request_timeout=REQUEST_SECONDS_MAX))
    if result.errors:
        raise CommandFailed(f"not all brokers answered: {error_line(result.errors[0])}")
    found = sorted((group.group_id, state_name(group.state)) for group in result.valid)
    if json:
        print_json({"groups": [{"group": group, "state": state} for group, state in found]})
    elif found:
        print_table(["GROUP", "STATE"], found)


@groups.command()
def describe(group: Group, bootstrap: Bootstrap = BOOTSTRAP, json: Json = False) -> None:
    """Show the members of a group, its committed offsets and how far behind it is."""
    admin = connect(bootstrap)
    cluster_metadata(admin, bootstrap)
    described = describe_group(admin, bootstrap, group)
    if json:
        print_json(described)
        return
    print(f"group {group}: {described['state']}, lag {described['lag']}")
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"],
        [list(partition.values()) for partition in described["partitions"]],
    )


@groups.command()
def reset(
    group: Group,
    topic: Annotated[str, typer.Option(help="The topic whose offsets are set.", callback=check_name)],
    to: Annotated[
        str,
        typer.Option(metavar="beginning|end|OFFSET|TIME", help="TIME is ISO 8601, by default in UTC."),
    ],
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Set the committed offsets of a group that has no running members."""
    target = parse_target(to)
    admin = connect(bootstrap)
    partitions = [(topic, index) for index in require_topic(cluster_metadata(admin, bootstrap), topic)]
    offsets = target_offsets(admin, partitions, target)
    committed = [TopicPartition(name, index, offset) for (name, index), offset in sorted(offsets.items())]
    futures = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, committed)], request_timeout=REQUEST_SECONDS_MAX
    )
    for future in futures.values():
        refuse_active_members(group, future.exception(timeout=REQUEST_SECONDS_MAX + 5))
        for partition in answer(future).topic_partitions:
            if partition.error is not None:
                refuse_active_members(group, partition.error)
                raise CommandFailed(f"{topic}-{partition.partition}: {partition.error.str()}")
    rows: list[dict[str, str | int]] = [
        {"topic": topic, "partition": index, "offset": offset} for (_, index), offset in offsets.items()
    ]
    if json:
        print_json({"group": group, "partitions": rows})
    else:
        print_table(["TOPIC", "PARTITION", "OFFSET"], [list(row.values()) for row in rows])


def describe_group(admin: AdminClient, bootstrap: str, group: str) -> dict[str, Any]:
    description = answer(admin.describe_consumer_groups([group], request_timeout=REQUEST_SECONDS_MAX)[group])
    try:
        committed = look_at_offsets(bootstrap, group, REQUEST_SECONDS_MAX)
    except PenstockError as error:
        raise CommandFailed(str(error)) from error
    if not committed and description.state == ConsumerGroupState.DEAD:
        raise CommandFailed(f"group {group!r} does not exist")
    owners = {
        (assigned.topic, assigned.partition): member.client_id
        for member in description.members
        for assigned in (member.assignment.topic_partitions if member.assignment else [])
    }
    partitions = lag_rows(admin, committed, owners)
    return {
        "group": group,
        "state": state_name(description.state),
        "assignor": description.partition_assignor or None,
        "lag": sum(row["lag"] for row in partitions if row["lag"] is not None),
        "members": [
            {"member": member.member_id, "client": member.client_id, "host": member.host}
            for member in description.members
        ],
        "partitions": partitions,
    }


def lag_rows(
    admin: AdminClient, committed: dict[Partition, int], owners: dict[Partition, str]
) -> list[dict[str, Any]]:
    """One row per partition that the group reads or has read; what a deleted topic had is still listed."""
    every = sorted(committed.keys() | owners.keys())
    topics = admin.list_topics(timeout=REQUEST_SECONDS_MAX).topics
    existing = [key for key in every if key[0] in topics and key[1] in topics[key[0]].partitions]
    ends = positions(admin, existing, OffsetSpec.latest())
    rows = []
    for key in every:
        offset, end = committed.get(key), ends[key].offset if key in ends else None
        lag = max(0, end - offset) if end is not None and offset is not None else None
        rows.append(
            {
                "topic": key[0],
                "partition": key[1],
                "committed": offset,
                "end": end,
                "lag": lag,
                "member": owners.get(key),
            }
        )
    return rows


def parse_target(text: str) -> str | int | datetime:
    if text in ("beginning", "end"):
        return text
    if is_offset(text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not 'beginning', 'end', an offset or a time like 2026-03-01T12:00:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def target_offsets(
    admin: AdminClient, partitions: list[Partition], target: str | int | datetime
) -> dict[Partition, int]:
    """The offset for each partition; a number is moved into what the partition holds."""
    starts = positions(admin, partitions, OffsetSpec.earliest())
    ends = positions(admin, partitions, OffsetSpec.latest())
    if isinstance(target, int):
        return {key: min(max(target, starts[key].offset), ends[key].offset) for key in partitions}
    if isinstance(target, datetime):
        # Kafka has no times before 1970, and negative ones mean something else.
        timestamp = max(0, int(target.timestamp() * 1_000))
        found = positions(admin, partitions, OffsetSpec.for_timestamp(timestamp))
        return {key: found[key].offset if found[key].offset >= 0 else ends[key].offset for key in partitions}
    wanted = starts if target == "beginning" else ends
    return {key: wanted[key].offset for key in partitions}


def refuse_active_members(group: str, error: BaseException | KafkaError | None) -> None:
    """Brokers refuse to move a group under its members with one of these codes."""
    reason = error.args[0] if isinstance(error, BaseException) and error.args else error
    busy = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS)
    if isinstance(reason, KafkaError) and reason.code() in busy:
        raise CommandFailed(f"group {group!r} has running members: stop them first")


def state_name(state: ConsumerGroupState | None) -> str:
    return state.name.lower() if state is not None else "unknown"
