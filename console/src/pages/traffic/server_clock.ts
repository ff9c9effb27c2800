// Asks the gateway for the time now and then: often at first, since each answer narrows the bounds.

import { signal, type ReadonlySignal } from "@preact/signals";
import { ANY_CLOCK, narrow, type ClockBounds } from "./clock";

const PATH = "/healthz";
/** Not a multiple of the header's second, so that the answers differ in what they rule out. */
const FIRST_MS = 1_370;
const FIRST_ASKS = 6;
const LATER_MS = 60_000;

export class ServerClock {
  readonly #bounds = signal<ClockBounds>(ANY_CLOCK);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asking: AbortController | undefined;
  #asks = 0;

  get bounds(): ReadonlySignal<ClockBounds> {
    return this.#bounds;
  }

  start(): () => void {
    this.#next(0);
    return () => {
      clearTimeout(this.#timer);
      this.#asking?.abort();
    };
  }

  #next(waitMs: number): void {
    this.#timer = setTimeout(() => void this.#ask(), waitMs);
  }

  async #ask(): Promise<void> {
    const asking = new AbortController();
    this.#asking = asking;
    const askedAt = Date.now();
    try {
      const response = await fetch(PATH, { cache: "no-store", signal: asking.signal });
      const date = Date.parse(response.headers.get("date") ?? "");
      if (!Number.isNaN(date)) this.#bounds.value = narrow(this.#bounds.peek(), date, askedAt, Date.now());
      this.#asks += 1;
    } catch {
      if (asking.signal.aborted) return;
      // The gateway is away, as the page says elsewhere. The clocks are what they were.
    }
    this.#next(this.#asks < FIRST_ASKS ? FIRST_MS : LATER_MS);
  }
}
