// The rows of a query as they arrive.
//
// A stream that breaks is opened again and told from its beginning; what is known is shown until the new
// telling has come as far. A stream that has ended was complete if it told as many rows as the job says there
// are.

import { signal, type ReadonlySignal } from "@preact/signals";
import { authorization, failureOf } from "../../lib/api";
import { backoffMs } from "../../lib/backoff";
import { ApiError, Unreachable, messageOf } from "../../lib/failure";
import { visible } from "../../lib/visible";
import { Digest } from "./digest";
import { NdjsonError, NdjsonParser } from "./ndjson";
import { resultsPath } from "./results";
import type { Job, QueryName } from "./wire";

const DRAW_MS = 250;
/** In a row, of a job that is complete: then what is missing is not kept any more. */
const FAILURES_MAX = 4;
/** A stream that lived so long was well. */
const LONG_MS = 30_000;
/** With rows on their way; a stream without any may be silent as long as it likes. */
const SILENCE_MS_MAX = 20_000;

export interface Shown {
  /** A copy that nothing is added to: components are drawn again only if they get another value. */
  readonly digest: Digest;
  readonly phase: "reading" | "waiting" | "ended" | "enough" | "failed";
  readonly failure: string | null;
}

export class ResultFeed {
  readonly #job: string;
  readonly #query: QueryName;
  readonly #shown;
  #connection: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #drawing: ReturnType<typeof setTimeout> | undefined;
  #undrawn: Digest | undefined;
  #failures = 0;
  #drawnAt = 0;
  #heardAt = 0;
  #isStopped = false;
  #known: Job | null = null;

  constructor(job: string, query: QueryName) {
    this.#job = job;
    this.#query = query;
    this.#shown = signal<Shown>({ digest: new Digest(query), phase: "waiting", failure: null });
  }

  get shown(): ReadonlySignal<Shown> {
    return this.#shown;
  }

  start(): () => void {
    const unwatch = visible.subscribe((seen) => (seen ? this.#open() : this.#close()));
    return () => {
      this.#isStopped = true;
      unwatch();
      this.#close();
      clearTimeout(this.#drawing);
    };
  }

  /** What the job says now; there may be something to read that was not there before. */
  update(job: Job): void {
    this.#known = job;
    const isBehind = this.#shown.peek().digest.count < job.queries[this.#query].rows;
    if (this.#connection !== undefined && isBehind && Date.now() - this.#heardAt > SILENCE_MS_MAX)
      this.#close(); // the other end is gone and nobody said so
    if (visible.peek()) this.#open();
  }

  #open(): void {
    if (this.#connection !== undefined || this.#timer !== undefined || this.#isStopped) return;
    if (!this.#hasMore()) return;
    void this.#run();
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#connection?.abort();
    this.#connection = undefined;
  }

  #hasMore(): boolean {
    if (this.#known === null) return false;
    const { state, rows } = this.#known.queries[this.#query];
    const { phase, digest } = this.#shown.peek();
    if (state === "later" || phase === "enough" || phase === "failed") return false;
    if (phase !== "ended") return true;
    return digest.count < rows;
  }

  async #run(): Promise<void> {
    const connection = new AbortController();
    this.#connection = connection;
    const opened = Date.now();
    this.#heardAt = opened;
    const failure = await this.#read(connection.signal);
    if (this.#connection !== connection) return; // closed, or opened anew, meanwhile
    this.#connection = undefined;
    if (failure === null) return;
    const isOver = failure instanceof ApiError && failure.status >= 400 && failure.status < 500;
    if (isOver && failure.status !== 429) {
      this.#tell({ phase: "failed", failure: failure.message });
      return;
    }
    if (Date.now() - opened > LONG_MS) this.#failures = 0;
    this.#failures += 1;
    this.#tell({ phase: "waiting", failure: messageOf(failure) });
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#open();
      },
      backoffMs(this.#failures, Math.random()),
    );
  }

  /** Reads until there is no more, or none is wanted; why it could not, else null. */
  async #read(signal: AbortSignal): Promise<Error | null> {
    try {
      const headers = { accept: "application/x-ndjson", ...authorization() };
      const path = resultsPath(this.#job, this.#query);
      const response = await fetch(path, { headers, signal, cache: "no-store" });
      if (!response.ok || response.body === null) return await failureOf(response);
      return await this.#readBody(response.body);
    } catch (error) {
      if (error instanceof NdjsonError) return error;
      return new Unreachable(`the results broke off (${messageOf(error)})`);
    }
  }

  async #readBody(body: ReadableStream<Uint8Array>): Promise<Error | null> {
    const [parser, decoder, digest] = [new NdjsonParser(), new TextDecoder(), new Digest(this.#query)];
    const reader = body.getReader();
    this.#tell({ phase: "reading", failure: null });
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      this.#heardAt = Date.now();
      for (const told of parser.push(decoder.decode(value, { stream: true }))) {
        const failure = failureIn(told);
        if (failure !== null) return this.#failed(digest, failure);
        if (digest.add(told)) continue;
        this.#draw(digest, { phase: "enough" });
        await reader.cancel();
        return null;
      }
      this.#drawSoon(digest);
    }
    if (parser.isInLine) return new Unreachable("the results broke off within a line");
    this.#failures = 0;
    this.#draw(digest, { phase: "ended" });
    return null;
  }

  /** What a job that has failed left behind stays to be seen; another failure may pass. */
  #failed(digest: Digest, failure: string): Error | null {
    const isLast = this.#known?.state === "complete" && this.#failures >= FAILURES_MAX;
    if (this.#known?.state !== "failed" && !isLast) return new Unreachable(failure);
    this.#draw(digest, { phase: "failed", failure });
    return null;
  }

  #drawSoon(digest: Digest): void {
    const isBehind = digest.count < this.#shown.peek().digest.count;
    if (isBehind || Date.now() - this.#drawnAt < DRAW_MS) this.#drawLater(digest);
    else this.#draw(digest, {});
  }

  /** Rows that came just after a drawing are not to wait for the next ones, nor are those before a break lost. */
  #drawLater(digest: Digest): void {
    this.#undrawn = digest; // of the newest stream: another one may have been opened since the timer was set
    this.#drawing ??= setTimeout(() => {
      this.#drawing = undefined;
      const undrawn = this.#undrawn;
      if (undrawn !== undefined && undrawn.count > this.#shown.peek().digest.count) this.#draw(undrawn, {});
    }, DRAW_MS);
  }

  #draw(digest: Digest, change: Partial<Pick<Shown, "phase" | "failure">>): void {
    this.#drawnAt = Date.now();
    this.#shown.value = { ...this.#shown.peek(), ...change, digest: digest.copy() };
  }

  #tell(change: Partial<Pick<Shown, "phase" | "failure">>): void {
    this.#shown.value = { ...this.#shown.peek(), ...change };
  }
}

/** In the place of a row: that no more will come, and why. */
export function failureIn(told: unknown): string | null {
  if (typeof told !== "object" || told === null) return null;
  if ("status" in told && told.status === "failure")
    return "message" in told ? String(told.message) : "the results ended early";
  return "error" in told ? String(told.error) : null;
}
