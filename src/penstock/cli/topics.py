"""`penstock topics`: list, create, describe, delete and configure topics."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.cli.kafka import (
    INTERNAL_PREFIX,
    REQUEST_SECONDS_MAX,
    answer,
    answers,
    cluster_metadata,
    connect,
    require_topic,
)
from penstock.cli.offsets import positions
from penstock.cli.options import (
    BOOTSTRAP,
    Bootstrap,
    Json,
    check_name,
    check_names,
    check_text,
    parse_settings,
)
from penstock.cli.output import CommandFailed, counted, print_json, print_table

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import TopicMetadata

BROKER_DEFAULT = -1
PARTITIONS_MAX = 100_000
REPLICAS_MAX = 2**15 - 1
"""What librdkafka and the protocol can say; brokers allow less."""

topics = typer.Typer(name="topics", help="Topics and their settings.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", callback=check_name)]


def register(app: typer.Typer) -> None:
    app.add_typer(topics)


@topics.command("list")
def list_topics(
    bootstrap: Bootstrap = BOOTSTRAP,
    everything: Annotated[bool, typer.Option("--all", help="Also the broker's own topics.")] = False,
    json: Json = False,
) -> None:
    """List the topics."""
    metadata = cluster_metadata(connect(bootstrap), bootstrap)
    found: list[dict[str, str | int]] = [
        {"name": name, "partitions": len(topic.partitions), "replicas": replicas(topic)}
        for name, topic in sorted(metadata.topics.items())
        if everything or not name.startswith(INTERNAL_PREFIX)
    ]
    if json:
        print_json({"topics": found})
    elif found:
        print_table(["TOPIC", "PARTITIONS", "REPLICAS"], [list(topic.values()) for topic in found])


@topics.command()
def create(
    name: Name,
    bootstrap: Bootstrap = BOOTSTRAP,
    partitions: Annotated[int, typer.Option(min=1, max=PARTITIONS_MAX, help="Number of partitions.")] = 1,
    replication: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            min=1,
            max=REPLICAS_MAX,
            help="Copies of each partition; the broker's default if not given.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the topic; repeatable.")
    ] = None,
) -> None:
    """Create a topic."""
    settings = parse_settings(config)
    topic = NewTopic(
        name, num_partitions=partitions, replication_factor=replication or BROKER_DEFAULT, config=settings
    )
    admin = connect(bootstrap)
    cluster_metadata(admin, bootstrap)
    answers(admin.create_topics([topic], request_timeout=REQUEST_SECONDS_MAX))
    print(f"created {name} with {counted(partitions, 'partition')}")


@topics.command()
def describe(name: Name, bootstrap: Bootstrap = BOOTSTRAP, json: Json = False) -> None:
    """Show the partitions of a topic and the settings that differ from the defaults."""
    admin = connect(bootstrap)
    metadata = cluster_metadata(admin, bootstrap)
    indexes = require_topic(metadata, name)
    partitions = describe_partitions(admin, name, metadata.topics[name], indexes)
    changed = {
        entry["name"]: entry["value"]
        for entry in read_config(admin, name)
        if entry["source"] == ConfigSource.DYNAMIC_TOPIC_CONFIG.name.lower()
    }
    if json:
        print_json({"name": name, "partitions": partitions, "config": changed})
        return
    print_table(
        ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END"],
        [
            [
                entry["partition"],
                entry["leader"],
                entry["leader_epoch"],
                joined(entry["replicas"]),
                joined(entry["isr"]),
                entry["log_start_offset"],
                entry["high_watermark"],
            ]
            for entry in partitions
        ],
    )
    for setting, value in sorted(changed.items()):
        print(f"{setting}={value}")


@topics.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="The topics.", callback=check_names)],
    bootstrap: Bootstrap = BOOTSTRAP,
) -> None:
    """Delete topics and all their messages."""
    admin = connect(bootstrap)
    metadata = cluster_metadata(admin, bootstrap)
    unique = list(dict.fromkeys(names))
    for name in unique:
        require_topic(metadata, name)
    answers(admin.delete_topics(unique, request_timeout=REQUEST_SECONDS_MAX))
    for name in unique:
        print(f"deleted {name}")


@topics.command()
def config(
    name: Name,
    bootstrap: Bootstrap = BOOTSTRAP,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a setting; repeatable.")
    ] = None,
    removed: Annotated[
        list[str] | None, typer.Option("--delete", metavar="NAME", help="Go back to the default; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the settings of a topic, or change some."""
    for setting in removed or []:
        check_text(setting)
    changes = [
        ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        for setting, value in parse_settings(settings).items()
    ] + [
        ConfigEntry(setting, None, incremental_operation=AlterConfigOpType.DELETE)
        for setting in removed or []
    ]
    admin = connect(bootstrap)
    require_topic(cluster_metadata(admin, bootstrap), name)
    if removed:
        # Brokers take it for done: a setting that does not exist is at its default.
        require_settings(admin, name, removed)
    if changes:
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        for future in admin.incremental_alter_configs(
            [resource], request_timeout=REQUEST_SECONDS_MAX
        ).values():
            answer(future)
    entries = read_config(admin, name)
    if json:
        print_json({"name": name, "config": entries})
    elif changes:
        touched = {change.name for change in changes}
        for entry in entries:
            if entry["name"] in touched:
                print(f"{entry['name']}={entry['value']}")
    else:
        print_table(
            ["NAME", "VALUE", "SOURCE"],
            [[entry["name"], entry["value"], entry["source"].replace("_", " ")] for entry in entries],
        )


def describe_partitions(
    admin: AdminClient, name: str, topic: "TopicMetadata", indexes: list[int]
) -> list[dict[str, Any]]:
    led = [(name, index) for index in indexes if topic.partitions[index].leader >= 0]
    starts = positions(admin, led, OffsetSpec.earliest())
    ends = positions(admin, led, OffsetSpec.latest())
    described = []
    for index in indexes:
        partition, key = topic.partitions[index], (name, index)
        described.append(
            {
                "partition": index,
                "leader": partition.leader if partition.leader >= 0 else None,
                "leader_epoch": ends[key].leader_epoch if key in ends else None,
                "replicas": partition.replicas,
                "isr": partition.isrs,
                "log_start_offset": starts[key].offset if key in starts else None,
                "high_watermark": ends[key].offset if key in ends else None,
            }
        )
    return described


def read_config(admin: AdminClient, name: str) -> list[dict[str, Any]]:
    """All settings of a topic by name, with where each value comes from."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    futures = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS_MAX)
    entries = [entry for future in futures.values() for entry in answer(future).values()]
    return [
        {"name": entry.name, "value": entry.value, "source": ConfigSource(entry.source).name.lower()}
        for entry in sorted(entries, key=lambda entry: str(entry.name))
    ]


def require_settings(admin: AdminClient, name: str, settings: list[str]) -> None:
    known = {entry["name"] for entry in read_config(admin, name)}
    for setting in settings:
        if setting not in known:
            raise CommandFailed(f"topics have no setting {setting!r}")


def replicas(topic: "TopicMetadata") -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def joined(ids: list[int]) -> str:
    return ",".join(map(str, ids)) or "-"
