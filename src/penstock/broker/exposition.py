"""The metrics of a node in Prometheus' text format, version 0.0.4.

    # HELP name what it is
    # TYPE name counter|gauge
    name{label="value"} number

Counters are kept where things happen (`metrics.py`); everything else is read off when somebody asks.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.broker.broker import Broker


DAMAGE_LABELS: Final = ("topic", "partition", "offset", "file")
DAMAGE_SHOWN_MAX: Final = 100
"""A broken disk must not make endless metrics."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: its samples differ in the values of their labels, or there is one sample and no label."""

    name: str
    kind: str
    help: str
    samples: tuple[tuple[tuple[str, ...], float], ...]
    labels: tuple[str, ...] = ()


def exposition(broker: Broker) -> str:
    return render((*request_families(broker), *log_families(broker), *process_families(broker)))


def render(families: Iterable[Family]) -> str:
    lines = []
    for family in families:
        lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
        for values, number in family.samples:
            pairs = zip(family.labels, values, strict=True)
            labels = ",".join(f'{label}="{escape(value)}"' for label, value in pairs)
            lines.append(f"{family.name}{f'{{{labels}}}' if labels else ''} {number!r}")
    return "\n".join(lines) + "\n"


def escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def counter(name: str, value: float, text: str) -> Family:
    return Family(f"{name}_total", "counter", text, (((), value),))


def gauge(name: str, value: float, text: str) -> Family:
    return Family(name, "gauge", text, (((), value),))


def request_families(broker: Broker) -> Iterator[Family]:
    metrics = broker.metrics
    names = {handler.key: handler.function.__name__ for handler in broker.registry}
    by_api = tuple(((names.get(key, str(key)),), count) for key, count in sorted(metrics.requests.items()))
    yield Family("penstock_requests_total", "counter", "Requests received, by API.", by_api, ("api",))
    yield gauge("penstock_connections", broker.connection_count, "Open connections of Kafka clients.")
    yield counter(
        "penstock_connections_failed",
        metrics.connections_failed,
        "Connections closed because of what the peer sent.",
    )
    yield counter("penstock_received_bytes", metrics.bytes_in, "Bytes received from Kafka clients.")
    yield counter("penstock_sent_bytes", metrics.bytes_out, "Bytes sent to Kafka clients.")
    load = broker.load_meter.report()
    yield gauge("penstock_busy", load.busy, "Share of the time in which the event loop had something to do.")
    yield gauge("penstock_queue_seconds", load.queue_ms / 1000, "How long what is ready waits for its turn.")
    yield gauge("penstock_disk_free_bytes", load.disk_free, "Left on the disk of the data folder.")
    yield gauge("penstock_held_bytes", broker.memory.used_bytes, "Bytes held for requests under way.")
    yield gauge("penstock_held_bytes_max", broker.memory.limit_bytes, "Over this, reading stops.")


def log_families(broker: Broker) -> Iterator[Family]:
    metrics = broker.metrics
    logs = [partition.log for partition in broker.partitions]
    yield counter("penstock_batches_appended", metrics.batches_appended, "Batches written to logs.")
    yield counter(
        "penstock_batches_duplicate", metrics.batches_duplicate, "Batches sent again and not stored again."
    )
    yield counter("penstock_flushes", metrics.flushes, "Group writes to logs, with fsync under flush=commit.")
    yield counter(
        "penstock_consumed_removed", metrics.consumed_removed, "Offsets that every subscription had got."
    )
    yield counter(
        "penstock_consumed_lost",
        metrics.consumed_lost,
        "Offsets that a ceiling of consumed retention took from subscriptions.",
    )
    yield gauge("penstock_topics", len(broker.controller.image.topics), "Topics.")
    yield gauge("penstock_partitions", len(logs), "Partitions on this node.")
    yield gauge(
        "penstock_partitions_read_only",
        sum(log.error is not None for log in logs),
        "Partitions that refuse writes after a disk error.",
    )
    yield gauge(
        "penstock_partitions_out_of_service",
        len(broker.partitions.failed),
        "Partitions whose logs cannot be opened.",
    )
    yield from damage_families(broker)
    yield gauge("penstock_log_bytes", sum(log.size_bytes for log in logs), "Size of all logs.")
    yield gauge(
        "penstock_log_records",
        sum(log.log_end_offset - log.log_start_offset for log in logs),
        "Offsets between start and end of all logs.",
    )
    yield gauge(
        "penstock_log_end_offset_sum", sum(log.log_end_offset for log in logs), "Sum of all log end offsets."
    )


def damage_families(broker: Broker) -> Iterator[Family]:
    metrics, current = broker.metrics, broker.scrubber.current
    done = current.bytes_done / max(1, current.bytes_total) if current is not None else 0.0
    yield counter("penstock_scrubbed_bytes", metrics.scrubbed_bytes, "Bytes of closed segments read again.")
    yield counter(
        "penstock_scrub_damage_found", metrics.scrub_damage_found, "Damaged stretches that scrubbing found."
    )
    yield counter(
        "penstock_scrub_repaired", metrics.scrub_repaired, "Damaged stretches mended from another replica."
    )
    yield counter(
        "penstock_scrub_disagreements",
        metrics.scrub_disagreements,
        "Ranges of followers that differed from what their leaders have.",
    )
    yield gauge("penstock_scrub_progress_ratio", done, "How far the round of scrubbing is; 0 between rounds.")
    damaged = [(partition, each) for partition in broker.partitions for each in partition.log.damage()]
    yield gauge(
        "penstock_log_damaged_ranges", len(damaged), "Damaged stretches of logs, which are not served."
    )
    samples = tuple(
        ((partition.topic, str(partition.index), str(each.first_offset), each.file), each.size)
        for partition, each in damaged[:DAMAGE_SHOWN_MAX]
    )
    text = "Size of each damaged stretch, from this offset on."
    yield Family("penstock_log_damaged_bytes", "gauge", text, samples, DAMAGE_LABELS)


def process_families(broker: Broker) -> Iterator[Family]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield gauge("process_start_time_seconds", broker.started_at_ms / 1_000, "When the node started.")
    yield counter("process_cpu_seconds", usage.ru_utime + usage.ru_stime, "CPU time, user and system.")
    resident = resident_bytes()
    if resident is not None:
        yield gauge("process_resident_memory_bytes", resident, "Resident memory.")


def resident_bytes() -> int | None:
    """None where the system has no /proc."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
