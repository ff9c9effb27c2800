// The server's clock, as far as the `Date` header of its answers tells.
//
// The header has whole seconds, so an answer says only this much: at some moment between question and answer
// it was between `date` and `date` plus a second over there. Each answer is an interval for the difference of
// the clocks, and what lies in all of them is narrow after a few. As long as zero is possible it is taken: on
// one machine, the usual case, there is no difference, and a guess would only shake the display.

export interface ClockBounds {
  /** Server minus browser, milliseconds. */
  readonly least: number;
  readonly most: number;
}

export const ANY_CLOCK: ClockBounds = { least: -Infinity, most: Infinity };

export function narrow(bounds: ClockBounds, date: number, askedAt: number, answeredAt: number): ClockBounds {
  const least = date - answeredAt;
  const most = date + 999 - askedAt;
  // Bounds that exclude each other: one of the clocks was set. What is newer counts.
  if (least > bounds.most || most < bounds.least) return { least, most };
  return { least: Math.max(least, bounds.least), most: Math.min(most, bounds.most) };
}

export function offsetOf({ least, most }: ClockBounds): number {
  if (least <= 0 && most >= 0) return 0;
  if (least === -Infinity) return most;
  if (most === Infinity) return least;
  return (least + most) / 2;
}

/** How far behind the newest position is; never negative, as no car is ahead of its time by design. */
export function behindMs(newest: number, now: number, bounds: ClockBounds): number {
  return Math.max(0, now + offsetOf(bounds) - newest);
}
