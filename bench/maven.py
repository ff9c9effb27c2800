"""Jars through Maven, resolved once and kept in `bench/.cache`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.process import ROOT, UnavailableError

CACHE: Final = ROOT / "bench" / ".cache"
SECONDS_MAX: Final = 600
COPY_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bench</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""
DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>\n"
)
EVERYTHING: Final = "<groupId>*</groupId><artifactId>*</artifactId>"
ALONE: Final = f"<exclusions><exclusion>{EVERYTHING}</exclusion></exclusions>"


def jars(name: str, artifacts: Sequence[str], *, transitive: bool = True) -> Path:
    """A folder with these artifacts ("group:artifact:version") and, unless told not to, what they need."""
    folder = CACHE / name
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError(f"no mvn to resolve the jars of {name}")
    partial = folder.with_name(f"{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    dependencies = [
        DEPENDENCY.format(*artifact.split(":"), "" if transitive else ALONE) for artifact in artifacts
    ]
    pom = partial / "pom.xml"
    pom.write_text(POM.format(dependencies="".join(dependencies)))
    argv = [maven, "-q", "-B", "-f", pom, COPY_GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    done = subprocess.run([str(part) for part in argv], capture_output=True, check=False, timeout=SECONDS_MAX)
    if done.returncode:
        raise UnavailableError(f"mvn could not resolve the jars of {name}")
    partial.rename(folder)  # it has its name when it is complete
    return folder
