"""Which message of a file is next, and how much the service has not told of yet. Pure.

A file is a row of messages 0, 1, 2, … that come in order. What this gateway has written counts, and what the
service has told, whichever is further. So a message that is repeated is recognised, and one that leaves a gap
is refused with the number that is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from penstock.flights.jobs import FILES

if TYPE_CHECKING:
    from penstock.flights.jobs import FileProgress, Job


class Verdict(Enum):
    WRITE = auto()
    DUPLICATE = auto()
    """It was there before: nothing is to be done, and all is well."""
    GAP = auto()
    """Another message is next."""
    ENDED = auto()
    """The file has ended before."""


@dataclass(slots=True)
class FileUpload:
    next: int = 0
    bytes: int = 0
    """Of the messages before the next one."""
    told_bytes: int = 0
    """Of the file, by the service."""
    end: int | None = None
    """How many messages there are, once that was said."""

    @property
    def behind(self) -> int:
        """Bytes that are written and that the service has not told of."""
        return max(0, self.bytes - self.told_bytes)

    def told(self, progress: FileProgress) -> None:
        self.next = max(self.next, progress.next)
        self.bytes = max(self.bytes, progress.bytes)
        self.told_bytes = progress.bytes
        if progress.messages is not None:
            self.end = progress.messages

    def judge(self, message: int) -> Verdict:
        if message < self.next:
            return Verdict.DUPLICATE
        if self.end is not None and message >= self.end:
            return Verdict.ENDED
        return Verdict.WRITE if message == self.next else Verdict.GAP

    def judge_end(self, messages: int) -> Verdict:
        if self.end is not None:
            return Verdict.DUPLICATE if messages == self.end else Verdict.ENDED
        return Verdict.WRITE if messages == self.next else Verdict.GAP

    def written(self, message: int, size: int) -> None:
        """The service may have told of it, and of more, before its writer was told."""
        if message == self.next:
            self.next += 1
            self.bytes += size


class Uploads:
    """Files of jobs that are not done and that somebody sends through this gateway."""

    def __init__(self) -> None:
        self._files: dict[str, dict[str, FileUpload]] = {}
        self.behind = 0
        """Of all of them."""

    def __len__(self) -> int:
        return len(self._files)

    def look(self, job: Job, name: str) -> FileUpload:
        """As far as it is known, and not to be changed."""
        files = self._files.get(job.job)
        return files[name] if files is not None else new_upload(job.files[name])

    def file(self, job: Job, name: str) -> FileUpload:
        """The same, and remembered from now on, unless the job is done."""
        files = self._files.get(job.job)
        if files is None:
            files = {each: new_upload(job.files[each]) for each in FILES}
            if not job.state.is_final:
                self._files[job.job] = files
        return files[name]

    def written(self, job: Job, name: str, message: int, size: int) -> int:
        """The message is on the log; which is next."""
        upload = self.file(job, name)
        before = upload.behind
        upload.written(message, size)
        if job.job in self._files:
            self.behind += upload.behind - before
        return upload.next

    def told(self, job: Job) -> None:
        """By the service."""
        if job.state.is_final:
            self.forget(job.job)
            return
        for name, upload in self._files.get(job.job, {}).items():
            before = upload.behind
            upload.told(job.files[name])
            self.behind += upload.behind - before

    def forget(self, job: str) -> None:
        self.behind -= sum(upload.behind for upload in self._files.pop(job, {}).values())

    def forget_all(self) -> None:
        self._files.clear()
        self.behind = 0

    def behind_of(self, job: str) -> int:
        return sum(upload.behind for upload in self._files.get(job, {}).values())

    def bytes_of(self, job: Job) -> int:
        """Of both files, written or told."""
        files = self._files.get(job.job)
        if files is None:
            return sum(each.bytes for each in job.files.values())
        return sum(each.bytes for each in files.values())


def new_upload(progress: FileProgress) -> FileUpload:
    upload = FileUpload()
    upload.told(progress)
    return upload
