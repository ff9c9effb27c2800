import { describe, expect, it } from "vitest";
import { PALETTES, colourAt, gradient, type MapTheme, type Stop } from "./palette";

const STOPS: readonly Stop[] = [
  [0, "rgba(0, 0, 0, 0)"],
  [0.5, "#ff0000"],
  [1, "#ffffff"],
];

/** Relative luminance of a colour over a ground, by WCAG's formula. */
function luminance(colour: string, ground: string): number {
  const parts = (text: string): number[] => (colourAt([[0, text], [1, text]], 0).match(/[\d.]+/g) ?? []).map(Number);
  const [over, under] = [parts(colour), parts(ground)];
  const alpha = over[3] ?? 1;
  const linear = [0, 1, 2].map((index) => {
    const share = ((over[index] ?? 0) * alpha + (under[index] ?? 0) * (1 - alpha)) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (linear[0] ?? 0) + 0.7152 * (linear[1] ?? 0) + 0.0722 * (linear[2] ?? 0);
}

describe("colourAt", () => {
  it("is a stop's own colour, and in between a mixture", () => {
    expect(colourAt(STOPS, 0)).toBe("rgba(0, 0, 0, 0.000)");
    expect(colourAt(STOPS, 0.5)).toBe("rgba(255, 0, 0, 1.000)");
    expect(colourAt(STOPS, 0.75)).toBe("rgba(255, 128, 128, 1.000)");
    expect(colourAt(STOPS, 7)).toBe("rgba(255, 255, 255, 1.000)");
    expect(colourAt(STOPS, -1)).toBe("rgba(0, 0, 0, 0.000)");
  });
});

describe("gradient", () => {
  it("is what CSS takes", () => {
    expect(gradient(STOPS)).toBe("linear-gradient(to right, rgba(0, 0, 0, 0) 0%, #ff0000 50%, #ffffff 100%)");
  });
});

describe.each<MapTheme>(["light", "dark"])("the %s ramp of heat", (theme) => {
  it("changes in lightness all the way, so that it can be read without hues", () => {
    const { heat, land } = PALETTES[theme];
    const steps = Array.from({ length: 41 }, (_, index) => luminance(colourAt(heat, index / 40), land));
    const sign = theme === "dark" ? 1 : -1;
    for (let index = 1; index < steps.length; index++) {
      expect(sign * ((steps[index] ?? 0) - (steps[index - 1] ?? 0))).toBeGreaterThan(-0.002);
    }
    expect(sign * ((steps.at(-1) ?? 0) - (steps[0] ?? 0))).toBeGreaterThan(0.6);
  });
});
