"""Every command in the docs is run, and prints what the docs say it prints.

A `console` block holds commands (`$ …`) and what they print; `…` stands for anything. The blocks of a page
are one session, in one folder. A node (`penstock up`, `penstock broker`) is started in the background and
takes the place of the one before it. `python` blocks are run as scripts in the same session, and a `toml`
block is the page's `node.toml`. Default ports are replaced by free ones on the way in, and put back on the
way out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.managed_process import ROOT, ManagedProcess, environment_with
from tests.support.parts import HOW_TO_GET
from tests.support.ports import free_port, free_ports

pytestmark = pytest.mark.spark

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAKE_TARGETS_RUN_BY_CI = {"make install", "make lint", "make check", "make test", "make demo"}
NODE = re.compile(r"penstock (up|broker)\b")
COMMAND_SECONDS_MAX = 240.0
"""The longest is `penstock demo`, which starts Spark twice."""
BROKERS_MAX = 4


@dataclass
class Command:
    text: str
    expected: list[str] = field(default_factory=list)


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


class Session:
    """One page, from its first block to its last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_ports(BROKERS_MAX)
        # A cluster's brokers listen on the ports that follow.
        self.ports = {str(9092 + place): str(port + place) for place in range(BROKERS_MAX)}
        self.ports["8080"] = str(free_port())
        binaries = folder / "bin"
        binaries.mkdir()
        penstock = binaries / "penstock"
        penstock.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
        penstock.chmod(0o755)
        self.environment = environment_with(
            PATH=f"{binaries}:{os.environ['PATH']}",
            PENSTOCK_BOOTSTRAP=f"127.0.0.1:{self.ports['9092']}",
            PENSTOCK_HTTP=f"http://127.0.0.1:{self.ports['8080']}",
        )
        self.node: NodeOfThePage | None = None

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
        else:
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
            assert result.returncode == 0, f"{command.text}: {result.stderr}"
            printed = result.stdout
        expect(command, self.outward(printed))

    def start_node(self, text: str) -> str:
        self.stop_node()
        if text.startswith("penstock up"):
            text += f" --port {self.ports['9092']} --http-port {self.ports['8080']}"
        self.node = NodeOfThePage(text, self.folder, self.environment).start()
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
    wanted = "\n".join(command.expected).rstrip("\n")
    pattern = re.escape(wanted).replace("…", ".*")
    # Columns grow with what is in them: any run of blanks matches any other.
    pattern = re.sub(r"(\\ )+", " +", pattern)
    # A command on its own shows nothing in the docs only if it prints nothing.
    assert re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL), (
        f"$ {command.text}\nthe docs say:\n{wanted}\nit prints:\n{printed}"
    )


def pages_with_commands() -> Iterator[Any]:
    for page in PAGES:
        found = [content for language, content in blocks(page) if language == "console"]
        if found:
            named = [program for program in HOW_TO_GET if any(f"$ {program}" in content for content in found)]
            marks = [pytest.mark.needs(program) for program in named]
            yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", list(pages_with_commands()))
def test_the_commands_of_a_page(page: Path, tmp_path: Path) -> None:
    session = Session(tmp_path)
    try:
        for language, content in blocks(page):
            if language == "toml":
                (tmp_path / "node.toml").write_text(session.inward(content))
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


@pytest.mark.parametrize("command", sorted(MAKE_TARGETS_RUN_BY_CI))
def test_make_targets_of_the_docs_exist(command: str) -> None:
    result = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_commands_are_only_in_blocks_that_are_run() -> None:
    for page in PAGES:
        for language, content in blocks(page):
            if language not in ("console", "python", "toml", "java"):
                assert not re.search(r"^\s*(\$ )?(penstock|kcat|make) ", content, re.MULTILINE), page


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.needs("curl", "kcat")
def test_the_tools_of_the_docs_are_there() -> None:
    for tool in ("bash", "curl", "kcat", "make"):
        assert shutil.which(tool), f"{tool} is missing: install it, the docs and the tests use it"
