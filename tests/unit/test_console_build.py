"""How the console is built: from pinned packages of no place in particular, and only after a change."""

from __future__ import annotations

import gzip
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "console"
EXACT = re.compile(r"\d+\.\d+\.\d+")
LOCK = {
    "packages": {
        "": {},
        "node_modules/a": {"version": "1.0.0"},
        "node_modules/b": {"version": "2", "optional": True},
    }
}


@pytest.fixture
def script(tmp_path: Path) -> SimpleNamespace:
    """scripts/console.py, for a console of the test's own, and what npm was asked to do."""
    console = tmp_path / "console"
    console.mkdir()
    (console / "package.json").write_text('{"engines": {"node": ">=20.19"}}')
    (console / "package-lock.json").write_text(json.dumps(LOCK))
    (console / "main.ts").write_text("1")
    found = runpy.run_path(str(ROOT / "scripts" / "console.py"))
    namespace: dict[str, Any] = found["build"].__globals__
    asked: list[str] = []

    def run(_node: Any, *arguments: str) -> None:
        asked.append(arguments[0])
        if arguments[0] == "ci":
            (console / "node_modules").mkdir(exist_ok=True)
            (console / "node_modules" / ".package-lock.json").write_text(json.dumps(LOCK))
        else:
            (tmp_path / "assets").mkdir(exist_ok=True)
            (tmp_path / "assets" / "index.js").write_text("x" * 5_000)
            (tmp_path / "assets" / "icon.svg").write_text("<svg/>")

    namespace.update(
        ROOT=tmp_path, CONSOLE=console, MODULES=console / "node_modules", ASSETS=tmp_path / "assets",
        STAMP=tmp_path / "assets" / ".sources", run=run, __file__=str(tmp_path / "script"),
        find_node=lambda: None,
    )  # fmt: skip
    (tmp_path / "script").write_text("")
    return SimpleNamespace(**found, asked=asked, console=console, assets=tmp_path / "assets")


def test_it_is_built_once(script: SimpleNamespace) -> None:
    script.build()
    assert script.asked == ["ci", "run"]
    script.build()
    assert script.asked == ["ci", "run"]


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_it_is_built_again_after_a_change(script: SimpleNamespace, change: str) -> None:
    main = script.console / "main.ts"
    script.build()
    if change == "edit":
        main.write_text("2")
    elif change == "add":
        (script.console / "more.ts").write_text("")
    elif change == "remove":
        main.unlink()
    else:
        main.rename(script.console / "other.ts")
    script.build()
    assert script.asked == ["ci", "run", "run"]


def test_it_is_built_again_when_it_is_gone(script: SimpleNamespace) -> None:
    script.build()
    (script.assets / ".sources").unlink()
    script.build()
    assert script.asked == ["ci", "run", "run"]


def test_packages_are_installed_when_the_lock_has_others(script: SimpleNamespace) -> None:
    script.build()
    other = json.dumps(LOCK).replace("1.0.0", "1.0.1")
    (script.console / "package-lock.json").write_text(other)
    script.build()
    assert script.asked == ["ci", "run", "ci", "run"]


def test_what_is_large_is_compressed_beside_it(script: SimpleNamespace) -> None:
    script.build()
    assert gzip.decompress((script.assets / "index.js.gz").read_bytes()) == b"x" * 5_000
    assert not (script.assets / "icon.svg.gz").exists()


@pytest.mark.parametrize(
    ("version", "is_taken"),
    [("v20.19.0", True), ("v24.1.2", True), ("v20.18.9", False), ("v18.20.4", False), ("", False)],
)
def test_which_node_is_new_enough(
    script: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_taken: bool
) -> None:
    for name in ("node", "npm"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    assert (script.version_of(str(tmp_path / "bin" / "node")) >= script.needed_version()) is is_taken


def test_versions_are_pinned() -> None:
    package = json.loads((CONSOLE / "package.json").read_text())
    versions = package["dependencies"] | package["devDependencies"] | package.get("overrides", {})
    assert [name for name, version in versions.items() if not EXACT.fullmatch(version)] == []


def test_nothing_says_where_packages_come_from() -> None:
    lock = json.loads((CONSOLE / "package-lock.json").read_text())["packages"]
    assert [name for name, package in lock.items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in lock.items() if name)
    assert "registry=" not in (CONSOLE / ".npmrc").read_text()


def test_the_lock_knows_the_packages_of_every_system() -> None:
    """A lock that was made where some could not be had makes `npm ci` fail, there and elsewhere."""
    lock = json.loads((CONSOLE / "package-lock.json").read_text())["packages"]
    missing = [
        f"{name}: {wanted}"
        for name, package in lock.items()
        for wanted in package.get("optionalDependencies", {})
        if f"node_modules/{wanted}" not in lock and f"{name}/node_modules/{wanted}" not in lock
    ]
    assert missing == []
