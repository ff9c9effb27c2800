// The time, for texts such as "12 s ago" that grow old by themselves.

import { signal, type ReadonlySignal } from "@preact/signals";
import { visible } from "./visible";

const TICK_MS = 1_000;
const ticking = signal(Date.now());

/** Now in ms, told anew each second while the page is seen. */
export const now: ReadonlySignal<number> = ticking;

/** Once, when the page starts. */
export function startClock(): void {
  setInterval(() => {
    if (visible.peek()) ticking.value = Date.now();
  }, TICK_MS);
}
