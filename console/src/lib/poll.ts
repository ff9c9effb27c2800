// A question that is asked again and again, as long as somebody looks at the answers.
//
// The last answer stays while later ones fail: a page shows it greyed rather than nothing. After a failure the
// wait grows. A page that is hidden asks nothing, and asks at once when it is seen again.

import { signal, type ReadonlySignal } from "@preact/signals";
import { backoffMs } from "./backoff";
import { isAbort } from "./failure";
import { visible } from "./visible";

export interface Resource<T> {
  /** The last answer; null before the first one. */
  data: T | null;
  /** When it came, in ms. */
  at: number | null;
  /** Why the last try failed; null if it did not. */
  failure: Error | null;
  /** When the first failure in this row of failures was. */
  failingSince: number | null;
  /** When the next try is, after a failure. */
  retryAt: number | null;
}

export const NOTHING_YET: Resource<never> = {
  data: null,
  at: null,
  failure: null,
  failingSince: null,
  retryAt: null,
};

export type Ask<T> = (signal: AbortSignal) => Promise<T>;

export class Poll<T> {
  readonly #ask: Ask<T>;
  readonly #intervalMs: number;
  readonly #state = signal<Resource<T>>(NOTHING_YET);
  #users = 0;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asking: AbortController | undefined;
  #unwatch: (() => void) | undefined;

  constructor(ask: Ask<T>, intervalMs: number) {
    this.#ask = ask;
    this.#intervalMs = intervalMs;
  }

  get state(): ReadonlySignal<Resource<T>> {
    return this.#state;
  }

  /** Asks until the returned function is called; several users share one question. */
  start(): () => void {
    this.#users += 1;
    if (this.#users === 1)
      this.#unwatch = visible.subscribe((seen) => (seen ? this.refresh() : this.#pause()));
    let stopped = false;
    return () => {
      if (stopped) return;
      stopped = true;
      this.#users -= 1;
      if (this.#users > 0) return;
      this.#unwatch?.();
      this.#pause();
    };
  }

  /** Asks now, for example after a change; the clock starts anew. */
  refresh(): void {
    this.#pause();
    if (this.#users > 0 && visible.peek()) void this.#try();
  }

  #pause(): void {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#asking = undefined;
  }

  async #try(): Promise<void> {
    const asking = new AbortController();
    this.#asking = asking;
    try {
      const data = await this.#ask(asking.signal);
      if (asking.signal.aborted) return;
      this.#failures = 0;
      this.#state.value = { data, at: Date.now(), failure: null, failingSince: null, retryAt: null };
      this.#again(this.#intervalMs);
    } catch (error) {
      if (asking.signal.aborted || isAbort(error)) return;
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #fail(failure: Error): void {
    this.#failures += 1;
    const waitMs = Math.max(this.#intervalMs / 2, backoffMs(this.#failures, Math.random()));
    const before = this.#state.peek();
    const now = Date.now();
    this.#state.value = {
      ...before,
      failure,
      failingSince: before.failingSince ?? now,
      retryAt: now + waitMs,
    };
    this.#again(waitMs);
  }

  #again(waitMs: number): void {
    this.#timer = setTimeout(() => void this.#try(), waitMs);
  }
}
