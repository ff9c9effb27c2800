import { describe, expect, it } from "vitest";
import { ANY_CLOCK, behindMs, narrow, offsetOf, type ClockBounds } from "./clock";

/** What a server whose clock is ahead by `offset` makes of the bounds, asked at these moments of ours. */
function asked(offset: number, moments: number[], tripMs = 40): ClockBounds {
  return moments.reduce((bounds, at) => {
    const there = at + tripMs / 2 + offset;
    return narrow(bounds, Math.floor(there / 1000) * 1000, at, at + tripMs);
  }, ANY_CLOCK);
}

const MOMENTS = [1_000_000, 1_001_130, 1_002_370, 1_003_610, 1_004_890, 1_006_050, 1_007_480];

describe("the server's clock", () => {
  it("is ours unless it can't be", () => {
    expect(offsetOf(ANY_CLOCK)).toBe(0);
    expect(offsetOf(asked(0, MOMENTS))).toBe(0);
    expect(offsetOf(asked(8, MOMENTS))).toBe(0);
  });

  it.each([-3_600_000, -5_000, 2_500, 90_000])("is found when it differs by %d ms", (offset) => {
    expect(Math.abs(offsetOf(asked(offset, MOMENTS)) - offset)).toBeLessThan(200);
  });

  it("is looked for again when one of the clocks was set", () => {
    const before = asked(0, MOMENTS);
    const moved = narrow(before, 2_000_000, 1_010_000, 1_010_040);
    expect(Math.abs(offsetOf(moved) - 990_000)).toBeLessThan(1_000);
  });
});

describe("behind", () => {
  it("counts by the server's clock and is never negative", () => {
    const ahead = asked(60_000, MOMENTS);
    expect(behindMs(1_000_000 + 60_000 - 1500, 1_000_000, ahead)).toBeGreaterThan(1_200);
    expect(behindMs(1_000_000 + 60_000 - 1500, 1_000_000, ahead)).toBeLessThan(1_800);
    expect(behindMs(2_000, 1_000, ANY_CLOCK)).toBe(0);
  });
});
