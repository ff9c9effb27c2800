"""What the ledger keeps of one job, and how that is written down. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.flights.jobs import FILES, FileProgress, Job
from penstock.flights.records import ALL_FLIGHTS
from penstock.pipelines.flights.service.intervals import Intervals


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a staged file: whole lines."""

    path: str
    position: int
    length: int


@dataclass(slots=True)
class ReceivedFile:
    seen: Intervals = field(default_factory=Intervals)
    messages: int | None = None
    bytes: int = 0
    duplicates: int = 0
    header: str | None = None
    pieces: list[tuple[int, int, Piece]] = field(default_factory=list)
    """First message, how many, and their bytes: neighbours in the log are neighbours here."""

    @property
    def is_complete(self) -> bool:
        return self.messages is not None and self.seen.next >= self.messages

    @property
    def progress(self) -> FileProgress:
        return FileProgress(self.seen.next, len(self.seen), self.messages, self.bytes, self.duplicates)

    def keep(self, message: int, piece: Piece) -> None:
        if self.pieces:
            first, count, last = self.pieces[-1]
            follows = last.path == piece.path and last.position + last.length == piece.position
            if follows and first + count == message:
                joined = replace(last, length=last.length + piece.length)
                self.pieces[-1] = (first, count + 1, joined)
                return
        self.pieces.append((message, 1, piece))

    @property
    def pieces_in_order(self) -> tuple[Piece, ...]:
        return tuple(piece for _, _, piece in sorted(self.pieces, key=lambda each: each[0]) if piece.length)


@dataclass(slots=True)
class Entry:
    """A job; `public` is what is told of it, kept up to date where it changes."""

    public: Job
    files: dict[str, ReceivedFile] = field(default_factory=lambda: {name: ReceivedFile() for name in FILES})
    airports: str | None = None
    """Where the positions are, once they are known."""
    reduced: list[str] = field(default_factory=list)

    @property
    def fastest_of_all(self) -> bool:
        """Whether query 3 is about all flights of a route."""
        return self.public.fastest_of == ALL_FLIGHTS

    @property
    def size(self) -> int:
        """In bytes, of all that came."""
        return sum(file.bytes for file in self.files.values())

    def paths(self) -> set[str]:
        found = {piece.path for file in self.files.values() for _, _, piece in file.pieces}
        found.update(self.reduced)
        if self.airports is not None:
            found.add(self.airports)
        return found

    def drop_staged(self) -> None:
        for file in self.files.values():
            file.pieces = []
        self.airports = None
        self.reduced = []

    def to_json(self) -> bytes:
        """The value of its record in `flights.jobs`: what is told of it, and what the ledger needs."""
        return self.public.to_json(
            {
                "files": {
                    name: {
                        "seen": file.seen.as_ranges(),
                        "header": file.header,
                        "pieces": [
                            [first, count, piece.path, piece.position, piece.length]
                            for first, count, piece in file.pieces
                        ],
                    }
                    for name, file in self.files.items()
                },
                "airports": self.airports,
                "reduced": self.reduced,
            }
        )

    @staticmethod
    def from_json(value: bytes) -> Entry:
        """Raises RecordError, KeyError, TypeError or ValueError if somebody else has written it."""
        public, private = Job.with_private(value)
        entry = Entry(public, airports=private["airports"], reduced=list(private["reduced"]))
        for name, file in entry.files.items():
            kept, told = private["files"][name], public.files[name]
            file.seen = Intervals((start, end) for start, end in kept["seen"])
            file.header = kept["header"]
            file.pieces = [(first, count, Piece(*piece)) for first, count, *piece in kept["pieces"]]
            file.messages, file.bytes, file.duplicates = told.messages, told.bytes, told.duplicates
        return entry
