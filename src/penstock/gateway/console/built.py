"""What `make console` left: the files of the console, found by the path that a browser asks for.

Only what was there when the folder was looked through can be had: a path is a key and never leads anywhere in
the file system. The folder is looked through again when its page has changed, so that a console that was
built anew is served by a gateway that runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "assets"
INDEX: Final = "index.html"
HASHED: Final = "assets/"
"""Where the build puts files that have a hash of their content in their name."""
COMPRESSED: Final = ".gz"
TEXT: Final = "; charset=utf-8"
MEDIA_TYPES: Final = {
    ".css": "text/css" + TEXT,
    ".gif": "image/gif",
    ".html": "text/html" + TEXT,
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript" + TEXT,
    ".json": "application/json",
    ".mjs": "text/javascript" + TEXT,
    ".pbf": "application/x-protobuf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".txt": "text/plain" + TEXT,
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
"""Not the machine's own list, which every machine has another of."""
UNKNOWN_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Asset:
    path: Path
    media_type: str
    immutable: bool
    """Whether the same name always means the same content."""
    compressed: Path | None


class BuiltConsole:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._assets: dict[str, Asset] = {}
        self._built_at_ns: int | None = None

    def index(self) -> Asset | None:
        """The page, unless there is none."""
        try:
            built_at_ns = (self._folder / INDEX).stat().st_mtime_ns
        except FileNotFoundError:
            self._built_at_ns = None
            self._assets = {}
            return None
        if built_at_ns != self._built_at_ns:
            self._assets = scan(self._folder)
            self._built_at_ns = built_at_ns
        return self._assets[INDEX]

    def find(self, name: str) -> Asset | None:
        """By the path below `/console/`."""
        if not self._assets:
            self.index()
        return self._assets.get(name)


def scan(folder: Path) -> dict[str, Asset]:
    files = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    return {
        name: Asset(
            path=path,
            media_type=MEDIA_TYPES.get(path.suffix, UNKNOWN_TYPE),
            immutable=name.startswith(HASHED),
            compressed=files.get(name + COMPRESSED),
        )
        for name, path in files.items()
        if path.suffix != COMPRESSED
    }
