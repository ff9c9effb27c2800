// How long to wait before trying again. Pure.

const FIRST_MS = 500;
const LONGEST_MS = 10_000;

/**
 * Twice as long after each failure in a row, up to a limit. `random` (0 to 1) spreads many pages that lost the
 * same gateway in the same moment, over the upper half of the wait.
 */
export function backoffMs(failures: number, random: number): number {
  const full = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, failures - 1));
  return Math.round(full / 2 + (full / 2) * random);
}
