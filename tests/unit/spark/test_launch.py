from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from penstock.spark import launch
from penstock.spark.java import SparkSetupError
from penstock.spark.launch import Java, command, is_ours_alone, settings

LISTENS = """
import os, sys
where = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
secret = b"s3cret"
with open(where + "~", "wb") as file:
    file.write((4711).to_bytes(4) + len(secret).to_bytes(4) + secret)
os.rename(where + "~", where)
sys.stdin.read()
"""
LOCAL = settings("local[2]", "a name", None)


def stand_in(program: str) -> Java:
    return Java([sys.executable, "-c", program], os.environ)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    return tmp_path


def test_java_says_where_it_listens_and_ends_when_its_input_does() -> None:
    java = stand_in(LISTENS)
    assert java.connection() == (4711, "s3cret")
    java.end()
    assert java.process.returncode == 0


def test_a_java_that_ends_before_it_listens_is_one_clear_line() -> None:
    java = stand_in("raise SystemExit(3)")
    with pytest.raises(SparkSetupError, match=r"^Spark does not start: its Java process ended with 3$"):
        java.connection()
    java.discard()


def test_a_java_that_nobody_took_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    java = stand_in(LISTENS)
    monkeypatch.setattr(launch, "start", lambda *_: java)
    with pytest.raises(FileNotFoundError), launch.started(None, app_name="x"):
        raise FileNotFoundError("itineraries.csv")
    assert java.process.returncode is not None
    assert not Path(java._folder).exists()


def test_a_java_that_was_taken_outlives_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    java = stand_in(LISTENS)
    monkeypatch.setattr(launch, "start", lambda *_: java)
    with launch.started(None, app_name="x") as started:
        assert started is java
        java.is_used = True
    assert java.process.poll() is None
    java.end()


@pytest.mark.parametrize(
    "environment",
    [
        {"SPARK_HOME": "/opt/spark"},
        {"SPARK_CONF_DIR": "/etc/spark"},
        {"SPARK_DRIVER_MEMORY": "8g"},
        {"PYSPARK_SUBMIT_ARGS": "--packages x pyspark-shell"},
        {"PYSPARK_GATEWAY_PORT": "1234"},
        {"HADOOP_CONF_DIR": "/etc/hadoop"},
    ],
)
def test_who_speaks_to_sparks_scripts_is_heard(home: Path, environment: dict[str, str]) -> None:
    assert not is_ours_alone(home, LOCAL, environment)


def test_nothing_is_assumed_of_a_spark_with_a_folder_of_configuration(home: Path) -> None:
    assert is_ours_alone(home, LOCAL, {})
    (home / "conf").mkdir()
    assert not is_ours_alone(home, LOCAL, {})


@pytest.mark.parametrize("key", launch.CHANGES_THE_COMMAND)
def test_settings_that_only_the_launcher_understands_are_left_to_it(home: Path, key: str) -> None:
    assert not is_ours_alone(home, LOCAL | {key: "x"}, {})


def test_what_spark_itself_reads_is_no_reason_for_its_scripts(home: Path) -> None:
    environment = {"SPARK_LOCAL_DIRS": "/scratch", "SPARK_SUBMIT_OPTS": "-Dx=y", "PATH": "/bin"}
    assert is_ours_alone(home, LOCAL, environment)


def test_the_command_line_has_memory_options_and_configuration(home: Path) -> None:
    given = settings(
        "local[2]", "two words", {"spark.driver.memory": "3g", "spark.driver.extraJavaOptions": "'-Da=b c'"}
    )
    line = command(Path("/java"), home, given, {"SPARK_SUBMIT_OPTS": "-Dd=e"})
    assert line[:3] == ["/java", "-cp", f"{home}/conf:{home}/jars/*"]
    before, after = line[: line.index(launch.MAIN_CLASS)], line[line.index(launch.MAIN_CLASS) + 1 :]
    assert {"-Xmx3g", "-Da=b c", "-Dd=e", *launch.MODULE_OPTIONS} <= set(before)
    assert after[-1] == "pyspark-shell"
    pairs = dict(word.split("=", 1) for word in after[1:-1:2])
    assert pairs == given
    assert (pairs["spark.app.name"], pairs["spark.master"]) == ("two words", "local[2]")


def test_only_workers_of_a_cluster_are_told_where_sparks_own_archives_of_python_are(home: Path) -> None:
    assert launch.home_for_workers(home, LOCAL) == {}
    cluster = settings("spark://127.0.0.1:7077", "a name", None)
    assert launch.home_for_workers(home, cluster) == {"SPARK_HOME": str(home)}
