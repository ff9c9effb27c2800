"""An archive of the classes that Spark loads, in a form that Java takes as it is.

Loading and checking some 15,000 classes is most of what a starting Spark does. Java can write the classes of
a run to a file and map it at the next start ("application class data sharing"), which takes a third off
the processor time of a short job. The file fits one Java and one set of jars; Java ignores it for any other.

`penstock.pipelines.sample_run` makes it, in the background after the first command that did without. It has
some 180 MB and is kept in the virtual environment, where it goes away with the jars; outside of one, in the
user's cache. PENSTOCK_SPARK_ARCHIVE=off does without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from shutil import disk_usage
from typing import Final

from penstock.spark.java import release, user_cache

SWITCH: Final = "PENSTOCK_SPARK_ARCHIVE"
MAKER: Final = "penstock.pipelines.sample_run"
QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xshare:auto")
"""Nothing about an archive that does not fit: stdout may be somebody's input."""
FREE_BYTES_MIN: Final = 1 << 30
BASE_S_MAX: Final = 60


def options(java: Path, home: Path) -> list[str]:
    """What makes this Java use the archive, if there is one."""
    archive = path(java, home)
    if _is_off() or not archive.exists():
        return []
    base = base_path(java, archive)
    return [*QUIET, f"-XX:SharedArchiveFile={archive if base is None else f'{base}:{archive}'}"]


def path(java: Path, home: Path) -> Path:
    jars = (home / "jars").stat()
    kind = f"{java} {sorted(release(java).items())} {home} {jars.st_mtime_ns}"
    return _folder() / f"spark-{sha256(kind.encode()).hexdigest()[:16]}.jsa"


def base_path(java: Path, archive: Path) -> Path | None:
    """Where the archive of Java's own classes is, on which the other stands, if this Java came without."""
    if (java.parent.parent / "lib" / "server" / "classes.jsa").exists():
        return None
    return archive.with_suffix(".base.jsa")


def failed_path(archive: Path) -> Path:
    """Is there when it could not be made: nobody tries that after every command."""
    return archive.with_suffix(".failed")


def recording(java: Path, archive: Path, aside: Path) -> str:
    """The options for a run whose classes Java writes to `aside` when it ends."""
    base = base_path(java, archive)
    if base is not None and not base.exists():
        unfinished = base.with_suffix(f".{os.getpid()}")
        subprocess.run(  # noqa: S603  # the Java that the user's environment names
            [java, "-Xshare:dump", f"-XX:SharedArchiveFile={unfinished}", "-Xlog:disable"],
            capture_output=True,
            timeout=BASE_S_MAX,
            check=True,
        )
        unfinished.replace(base)
    stands_on = [] if base is None else [f"-XX:SharedArchiveFile={base}"]
    return " ".join([*QUIET, *stands_on, f"-XX:ArchiveClassesAtExit={aside}"])


def make_in_background(java: Path, home: Path) -> None:
    """Start the maker, unless the archive is there, nobody wants it or there is no room for it."""
    archive = path(java, home)
    if _is_off() or archive.exists() or failed_path(archive).exists():
        return
    if disk_usage(_existing(archive)).free < FREE_BYTES_MIN:
        return
    subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", MAKER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


def _folder() -> Path:
    inside = Path(sys.prefix)
    if sys.prefix != sys.base_prefix and os.access(inside, os.W_OK):
        return inside / "share" / "penstock"
    return user_cache()


def _existing(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.exists())


def _is_off() -> bool:
    return os.environ.get(SWITCH, "").lower() == "off"
