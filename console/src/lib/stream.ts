// Following a stream of Server-Sent Events through everything that breaks it.
//
// Read with fetch(), since EventSource can not send a token. A stream that ends, fails or stays silent longer
// than the gateway's heartbeats allow is opened again, later after each failure. While the page is hidden the
// stream is closed: browsers allow few connections to a host, and they are shared by all tabs.

import { authorization, failureOf } from "./api";
import { backoffMs } from "./backoff";
import { EventParser, type ServerEvent } from "./event_parser";
import { Unreachable, messageOf } from "./failure";
import { visible } from "./visible";

export type { ServerEvent } from "./event_parser";

export type StreamState =
  | { kind: "connecting" }
  | { kind: "open" }
  | { kind: "waiting"; failure: Error; retryAt: number }
  | { kind: "ended"; failure: Error };

export interface StreamOptions {
  onEvent: (event: ServerEvent) => void;
  onState?: (state: StreamState) => void;
  /** Whether a failure is for good, such as 404 for a topic that was deleted. */
  isFinal?: (failure: Error) => boolean;
}

/** The gateway's heartbeats come every 15 s. */
const SILENCE_MS_MAX = 40_000;

/** Follows until the returned function is called. A stream with ids goes on behind the last one that came. */
export function followStream(path: string, options: StreamOptions): () => void {
  const follower = new Follower(path, options);
  const unwatch = visible.subscribe((seen) => (seen ? follower.open() : follower.close()));
  return () => {
    unwatch();
    follower.close();
  };
}

class Follower {
  readonly #path: string;
  readonly #options: StreamOptions;
  readonly #parser = new EventParser();
  #failures = 0;
  #connection: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isFinished = false;

  constructor(path: string, options: StreamOptions) {
    this.#path = path;
    this.#options = options;
  }

  open(): void {
    if (this.#connection !== undefined || this.#isFinished) return;
    clearTimeout(this.#timer);
    void this.#run();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#connection?.abort();
    this.#connection = undefined;
  }

  async #run(): Promise<void> {
    const connection = new AbortController();
    this.#connection = connection;
    this.#tell({ kind: "connecting" });
    const failure = await this.#read(connection);
    if (this.#connection !== connection) return; // closed, or opened anew, meanwhile
    this.#connection = undefined;
    if (this.#options.isFinal?.(failure) === true) {
      this.#isFinished = true;
      this.#tell({ kind: "ended", failure });
      return;
    }
    this.#failures += 1;
    const waitMs = backoffMs(this.#failures, Math.random());
    this.#tell({ kind: "waiting", failure, retryAt: Date.now() + waitMs });
    this.#timer = setTimeout(() => this.open(), waitMs);
  }

  /** Reads until it can not any more, and says why. */
  async #read(connection: AbortController): Promise<Error> {
    const silence = new Watchdog(SILENCE_MS_MAX, () => connection.abort());
    try {
      const headers: Record<string, string> = { accept: "text/event-stream", ...authorization() };
      if (this.#parser.lastId !== "") headers["last-event-id"] = this.#parser.lastId;
      const response = await fetch(this.#path, { headers, signal: connection.signal, cache: "no-store" });
      if (!response.ok || response.body === null) return await failureOf(response);
      this.#tell({ kind: "open" });
      await this.#readBody(response.body, silence);
      return new Unreachable("the gateway ended the stream");
    } catch (error) {
      if (silence.hasBitten) return new Unreachable("the stream fell silent");
      return new Unreachable(`the stream broke (${messageOf(error)})`);
    } finally {
      silence.stop();
    }
  }

  async #readBody(body: ReadableStream<Uint8Array>, silence: Watchdog): Promise<void> {
    this.#parser.reset();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      silence.feed();
      this.#failures = 0;
      for (const event of this.#parser.push(decoder.decode(value, { stream: true })))
        this.#options.onEvent(event);
    }
  }

  #tell(state: StreamState): void {
    this.#options.onState?.(state);
  }
}

/** Bites when it was not fed for too long. */
class Watchdog {
  readonly #ms: number;
  readonly #bite: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  hasBitten = false;

  constructor(ms: number, bite: () => void) {
    this.#ms = ms;
    this.#bite = bite;
    this.feed();
  }

  feed(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.hasBitten = true;
      this.#bite();
    }, this.#ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
