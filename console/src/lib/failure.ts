// What can go wrong with a request, as values that a page can show.

/** The gateway did not answer at all: it is away, or the network is. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

/** The gateway answered that it can not, or will not; the message is its own. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The request was called off by the page itself. Nobody needs to hear of it. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function needsToken(error: unknown): boolean {
  return (
    error instanceof ApiError && (error.status === 401 || error.status === 403) && /token/.test(error.message)
  );
}
