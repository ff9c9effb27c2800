from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.spark import class_archive


@pytest.fixture
def java(tmp_path: Path) -> Path:
    (tmp_path / "java" / "lib" / "server").mkdir(parents=True)
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return tmp_path / "java" / "bin" / "java"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.delenv(class_archive.SWITCH, raising=False)
    (tmp_path / "venv").mkdir()
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return tmp_path / "spark"


def put_archive(java: Path, home: Path) -> Path:
    archive = class_archive.path(java, home)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"")
    return archive


def test_without_an_archive_java_is_told_nothing(java: Path, home: Path) -> None:
    assert class_archive.options(java, home) == []


def test_an_archive_is_used_and_java_is_silent_if_it_does_not_fit(java: Path, home: Path) -> None:
    (java.parent.parent / "lib" / "server" / "classes.jsa").write_bytes(b"")
    archive = put_archive(java, home)
    assert class_archive.options(java, home) == [
        *class_archive.QUIET,
        f"-XX:SharedArchiveFile={archive}",
    ]


def test_a_java_that_came_without_an_archive_of_its_own_has_one_beside(java: Path, home: Path) -> None:
    archive = put_archive(java, home)
    base = archive.with_suffix(".base.jsa")
    assert class_archive.options(java, home)[-1] == f"-XX:SharedArchiveFile={base}:{archive}"


def test_who_wants_no_archive_gets_none(java: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_archive(java, home)
    monkeypatch.setenv(class_archive.SWITCH, "off")
    assert class_archive.options(java, home) == []


def test_another_java_or_other_jars_have_another_archive(java: Path, home: Path) -> None:
    first = class_archive.path(java, home)
    (java.parent.parent / "release").write_text('JAVA_VERSION="17.0.16"\n')
    second = class_archive.path(java, home)
    (home / "jars" / "new.jar").write_bytes(b"")
    assert len({first, second, class_archive.path(java, home)}) == 3


def test_outside_of_a_virtual_environment_it_is_in_the_users_cache(
    java: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert class_archive.path(java, home).parent == tmp_path / "cache" / "penstock"


@pytest.mark.parametrize(("switch", "is_there", "made"), [("", False, 1), ("", True, 0), ("off", False, 0)])
def test_it_is_made_in_the_background_when_it_is_wanted_and_missing(
    java: Path, home: Path, monkeypatch: pytest.MonkeyPatch, switch: str, is_there: bool, made: int
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setenv(class_archive.SWITCH, switch)
    if is_there:
        put_archive(java, home)
    class_archive.make_in_background(java, home)
    assert started == [[sys.executable, "-m", "penstock.pipelines.sample_run"]] * made


def test_what_failed_once_is_not_tried_after_every_command(
    java: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = class_archive.failed_path(class_archive.path(java, home))
    failed.parent.mkdir(parents=True)
    failed.touch()
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    class_archive.make_in_background(java, home)


def test_a_full_disk_gets_no_archive(java: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "FREE_BYTES_MIN", 1 << 62)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    class_archive.make_in_background(java, home)
