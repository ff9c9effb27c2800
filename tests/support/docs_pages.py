"""The commands of a page of the docs, run as its reader would; see tests/e2e/test_docs.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from tests.support import topics
from tests.support.managed_process import ROOT, ManagedProcess, environment_with
from tests.support.parts import HOW_TO_GET
from tests.support.ports import free_port, free_ports

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
ON_SPARK = ("flights.md", "flights-service.md", "spark.md")
"""Pages whose commands start Spark."""
MAKE_TARGETS_RUN_BY_CI = {"make install", "make lint", "make check", "make test", "make demo"}
ASSIGNMENT = re.compile(r"(\w+)=\$\(")
"""The reader's shell keeps the variable; here each command has a shell of its own."""
NODE = re.compile(r"penstock (up|broker)\b")
PLAIN_NODE = "penstock up"
WITH_A_NODE_OF_ITS_OWN = "transactions.md"
"""Lists all transactional ids, and those of other pages cannot be deleted."""
COMMAND_SECONDS_MAX = 240.0
"""The longest start Spark."""
BROKERS_MAX = 4
NEWS = re.compile(r"penstock cluster (log|status)\b")
"""What the supervisor has heard from its nodes, which it asks every second: a page is faster than that."""
NEWS_SECONDS_MAX = 20.0


@dataclass
class Command:
    text: str
    expected: list[str] = field(default_factory=list)

    @property
    def wanted(self) -> str:
        return "\n".join(self.expected).rstrip("\n")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, content) of each fenced block."""
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


def commands(block: str) -> list[Command]:
    found: list[Command] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line.removeprefix("$ ")))
        else:
            assert found, f"output before the first command: {line!r}"
            found[-1].expected.append(line)
    return found


class NodeOfThePage(ManagedProcess):
    def __init__(self, text: str, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(
            text,
            folder / "node.log",
            errors=folder / "node.errors",
            environment=environment,
            ready_s_max=30.0,
            cwd=folder,
        )

    def command(self) -> list[str]:
        return ["bash", "-c", f"exec {self.name}"]


def own_ports() -> dict[str, str]:
    """Free ones for the default ports."""
    port = free_ports(BROKERS_MAX)
    # A cluster's brokers listen on the ports that follow.
    return {str(9092 + place): str(port + place) for place in range(BROKERS_MAX)} | {"8080": str(free_port())}


def environment_of(folder: Path, ports: dict[str, str]) -> dict[str, str]:
    """With a command `penstock`, and addresses for those commands that are not told any."""
    binaries = folder / "bin"
    binaries.mkdir()
    penstock = binaries / "penstock"
    penstock.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    penstock.chmod(0o755)
    return environment_with(
        PATH=f"{binaries}:{os.environ['PATH']}",
        PENSTOCK_BOOTSTRAP=f"127.0.0.1:{ports['9092']}",
        PENSTOCK_HTTP=f"http://127.0.0.1:{ports['8080']}",
    )


def on_ports(text: str, ports: dict[str, str]) -> str:
    if text.startswith("penstock up"):
        text += f" --port {ports['9092']} --http-port {ports['8080']}"
    return text


class PlainNode:
    """The `penstock up` of all pages that have no other; it is started by the first of them."""

    def __init__(self, folder: Path) -> None:
        self.ports = own_ports()
        self.node = NodeOfThePage(
            on_ports(PLAIN_NODE, self.ports), folder, environment_of(folder, self.ports)
        )
        self._is_started = False

    def as_new(self) -> str:
        """What it printed when it started."""
        if not self._is_started:
            self.node.start()
            self._is_started = True
        topics.delete_everything(f"127.0.0.1:{self.ports['9092']}")
        return self.node.log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert not self._is_started or self.node.terminate() == 0, self.node.log


class Session:
    """One page, from its first block to its last."""

    def __init__(self, folder: Path, plain_node: PlainNode | None) -> None:
        self.folder = folder
        self.ports = own_ports() if plain_node is None else plain_node.ports
        self.environment = environment_of(folder, self.ports)
        self.node: NodeOfThePage | None = None
        self._plain_node = plain_node

    def inward(self, text: str) -> str:
        for default, own in self.ports.items():
            text = re.sub(rf"(127\.0\.0\.1:|http_port = ){default}\b", rf"\g<1>{own}", text)
        return text

    def outward(self, text: str) -> str:
        for default, own in self.ports.items():
            text = text.replace(f"127.0.0.1:{own}", f"127.0.0.1:{default}")
        return text

    def run(self, command: Command) -> None:
        text = self.inward(command.text)
        if NODE.match(text):
            printed = self.start_node(text)
        elif (assigned := ASSIGNMENT.match(text)) is not None:
            name, printed = assigned[1], ""
            self.environment[name] = self.output_of(f'{text}; echo -n "${name}"')
        else:
            deadline = time.monotonic() + (NEWS_SECONDS_MAX if NEWS.match(text) else 0)
            printed = self.output_of(text)
            while not is_as_written(command, self.outward(printed)) and time.monotonic() < deadline:
                printed = self.output_of(text)
        expect(command, self.outward(printed))

    def output_of(self, text: str) -> str:
        # Without an address `bench` starts a broker of its own, as the guide says.
        environment = {**self.environment}
        if text.startswith("penstock bench"):
            del environment["PENSTOCK_BOOTSTRAP"]
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )
        assert result.returncode == 0, f"{text}: {result.stderr}"
        return result.stdout

    def start_node(self, text: str) -> str:
        self.stop_node()
        if text == PLAIN_NODE and self._plain_node is not None:
            return self._plain_node.as_new()
        self.node = NodeOfThePage(on_ports(text, self.ports), self.folder, self.environment).start()
        return self.node.log

    def stop_node(self) -> None:
        if self.node is not None:
            assert self.node.terminate() == 0, self.node.log
            self.node = None

    def run_python(self, script: str) -> None:
        path = self.folder / "script.py"
        path.write_text(self.inward(script))
        result = subprocess.run(
            [sys.executable, str(path)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )
        assert result.returncode == 0, f"{script}\n{result.stderr}"
        assert result.stdout.strip(), f"{script}\nprints nothing that could be wrong"


def expect(command: Command, printed: str) -> None:
    assert is_as_written(command, printed), (
        f"$ {command.text}\nthe docs say:\n{command.wanted}\nit prints:\n{printed}"
    )


def is_as_written(command: Command, printed: str) -> bool:
    pattern = re.escape(command.wanted).replace("…", ".*")
    # Columns grow with what is in them: any run of blanks matches any other.
    pattern = re.sub(r"(\\ )+", " +", pattern)
    # A command on its own shows nothing in the docs only if it prints nothing.
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None


def with_commands(*, on_spark: bool) -> list[object]:
    """Parameters for tests."""
    found = []
    for page in PAGES:
        texts = [content for language, content in blocks(page) if language == "console"]
        if texts and (page.name in ON_SPARK) == on_spark:
            marks = [pytest.mark.needs(tool) for tool in HOW_TO_GET if f"$ {tool}" in "".join(texts)]
            found.append(pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks))
    return found


def run_page(page: Path, folder: Path, plain_node: PlainNode | None = None) -> None:
    nodes = re.findall(r"^\$ (penstock (?:up|broker)\b.*)$", page.read_text(), re.MULTILINE)
    assert PLAIN_NODE not in nodes or set(nodes) == {PLAIN_NODE}, "its ports are those of one node"
    is_alone = PLAIN_NODE not in nodes or page.name == WITH_A_NODE_OF_ITS_OWN
    session = Session(folder, None if is_alone else plain_node)
    try:
        for language, content in blocks(page):
            if language == "toml":
                (folder / "node.toml").write_text(session.inward(content))
            elif language == "python":
                session.run_python(content)
            elif language == "console":
                for command in commands(content):
                    if command.text not in MAKE_TARGETS_RUN_BY_CI:
                        session.run(command)
        session.stop_node()
    finally:
        if session.node is not None:
            session.node.terminate()  # not killed: a supervisor's cluster would go on, and call another
            session.node.wait()
