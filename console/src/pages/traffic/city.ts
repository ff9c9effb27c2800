// The city: its grid and its streets, asked for until they are there and again whenever the gateway may be
// another one.

import { computed, signal, type ReadonlySignal } from "@preact/signals";
import { get } from "../../lib/api";
import { isAbort } from "../../lib/failure";
import { parseGrid, type Grid } from "./grid";
import { isObject, parseStreets, type Street } from "./wire";

export interface City {
  readonly grid: Grid;
  readonly streets: readonly Street[];
}

const PATH = "/v1/traffic/streets";
/** The map is published when the first cars start, which may be after this page. */
const AGAIN_MS = 5_000;

export class CityLoader {
  readonly #city = signal<City | null>(null);
  readonly #failure = signal<Error | null>(null);
  #told = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asking: AbortController | undefined;

  /** The same object as long as it is the same city. */
  readonly city: ReadonlySignal<City | null> = computed(() => this.#city.value);
  readonly failure: ReadonlySignal<Error | null> = computed(() => this.#failure.value);

  load(): void {
    this.stop();
    void this.#ask();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }

  async #ask(): Promise<void> {
    const asking = new AbortController();
    this.#asking = asking;
    try {
      this.#take(await get<unknown>(PATH, asking.signal));
    } catch (error) {
      if (asking.signal.aborted || isAbort(error)) return;
      this.#failure.value = error instanceof Error ? error : new Error(String(error));
    }
    const isWhole = this.#failure.value === null && (this.#city.value?.streets.length ?? 0) > 0;
    if (!isWhole && !asking.signal.aborted) this.#timer = setTimeout(() => void this.#ask(), AGAIN_MS);
  }

  #take(told: unknown): void {
    const grid = parseGrid(isObject(told) ? told.grid : null);
    if (!grid) throw new Error("the gateway's answer has no map");
    this.#failure.value = null;
    const text = JSON.stringify(told);
    if (text === this.#told) return;
    this.#told = text;
    this.#city.value = { grid, streets: parseStreets(told) };
  }
}
