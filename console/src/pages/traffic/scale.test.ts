import { describe, expect, it } from "vitest";
import { follow, heatOf, quantile, rateOf } from "./scale";

describe("quantile", () => {
  it("interpolates", () => {
    expect(quantile([3, 1, 2], 0.5)).toBe(2);
    expect(quantile([0, 10], 0.95)).toBeCloseTo(9.5);
    expect(quantile([7], 0.95)).toBe(7);
    expect(quantile([], 0.5)).toBe(0);
  });
});

describe("the reference", () => {
  it("is not moved much by one cell that is far busier than all", () => {
    const rates = Array.from({ length: 99 }, (_, index) => 1 + (index % 10));
    const usual = follow(null, rates)!;
    expect(follow(null, [...rates, 10_000])!).toBeLessThan(usual * 1.2);
  });

  it("follows growth quicker than ebb, and comes to rest", () => {
    expect(follow(10, [20])! - 10).toBeGreaterThan(10 - follow(10, [0.1])!);
    let reference: number | null = 10;
    for (let step = 0; step < 200; step++) reference = follow(reference, [4]);
    expect(reference).toBeCloseTo(4);
  });

  it("stays when there is nothing to compare with", () => {
    expect(follow(10, [])).toBe(10);
    expect(follow(null, [])).toBeNull();
  });
});

describe("heat", () => {
  it("grows with the rate, from 0 to 1", () => {
    expect(heatOf(0, 10)).toBe(0);
    expect(heatOf(3.44, 10)).toBeCloseTo(0.5);
    expect(heatOf(2, 10)).toBeLessThan(heatOf(3, 10));
    expect(heatOf(10, 10)).toBe(1);
    expect(heatOf(1000, 10)).toBe(1);
    expect(heatOf(5, null)).toBe(0);
  });

  it("is what the legend says", () => {
    for (const heat of [0.1, 0.5, 1]) expect(heatOf(rateOf(heat, 42), 42)).toBeCloseTo(heat);
  });
});
