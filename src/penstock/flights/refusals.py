"""A gateway's refusals as errors, and which of them pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.client.errors import NotAuthorizedError, PenstockError, ServerError
from penstock.flights.errors import JobDeletedError, JobNotFoundError, UploadError

if TYPE_CHECKING:
    from penstock.flights.connection import Answer

OK: Final = 200
CONFLICT: Final = 409
NOT_FOUND: Final = 404
SUCCESSES: Final = range(200, 300)
BUSY: Final = frozenset({429, 502, 503, 504})
"""What passes: too much at once, a cluster that elects a leader, a proxy whose gateway restarts."""

ERRORS: Final[dict[int, type[PenstockError]]] = {
    400: UploadError,
    401: NotAuthorizedError,
    403: NotAuthorizedError,
    404: JobNotFoundError,
    409: UploadError,
    410: JobDeletedError,
    413: UploadError,
}


def refusal(answer: Answer, what: str) -> PenstockError:
    return ERRORS.get(answer.status, ServerError)(f"{what}: {answer.message}")
