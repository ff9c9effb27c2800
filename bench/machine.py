"""What the figures were taken on."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import confluent_kafka
import psutil

BUSY_SAMPLE_SECONDS: Final = 2.0
BUSY_MAX: Final = 15.0


def facts(arguments: str) -> dict[str, str]:
    clients = ", ".join(f"{name} {_installed(name)}" for name in ("redis", "hiredis", "nats-py", "pika"))
    memory_gib = psutil.virtual_memory().total / 2**30
    librdkafka = confluent_kafka.libversion()[0]
    busy = psutil.cpu_percent(BUSY_SAMPLE_SECONDS)
    warning = " – the machine was busy with other work, read the ratios with care" if busy > BUSY_MAX else ""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_cpu_model()}, {psutil.cpu_count()} cores, {memory_gib:.0f} GiB memory",
        "system": f"{platform.system()} {platform.release()}, Python {sys.version.split()[0]}",
        "clients": f"confluent-kafka {confluent_kafka.version()} (librdkafka {librdkafka}), {clients}",
        "CPU in use before the run": f"{busy:.0f} %{warning}",
        "arguments": arguments,
    }


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
