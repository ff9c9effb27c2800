// The colours of the map, which paints itself and so can not use the page's stylesheets.
//
// Both ramps of heat change in lightness all the way (dark: ever brighter, light: ever darker), so that they
// can be read without telling hues apart. Speeds go from red over yellow to blue, the pair of ends that
// people with the common kinds of colour blindness tell apart.

export type MapTheme = "light" | "dark";

/** A place between 0 and 1, and its colour. */
export type Stop = readonly [number, string];

export interface Palette {
  readonly land: string;
  readonly river: string;
  readonly street: string;
  readonly arterial: string;
  readonly avenue: string;
  readonly bridge: string;
  readonly border: string;
  readonly dark: string;
  readonly marked: string;
  readonly circle: string;
  readonly heat: readonly Stop[];
  readonly speed: readonly Stop[];
}

/** km/h that is shown as fast as can be. */
export const SPEED_MAX = 60;

export const PALETTES: Readonly<Record<MapTheme, Palette>> = {
  dark: {
    land: "#0d131c",
    river: "#14314b",
    street: "#1c2634",
    arterial: "#29374a",
    avenue: "#3a4c66",
    bridge: "#57708f",
    border: "#8ea6c4",
    dark: "#f2b84b",
    marked: "#ffffff",
    circle: "#0d131c",
    heat: [
      [0, "rgba(60, 15, 110, 0)"],
      [0.08, "rgba(74, 18, 118, 0.35)"],
      [0.25, "rgba(122, 28, 128, 0.75)"],
      [0.45, "rgba(196, 52, 104, 0.88)"],
      [0.65, "rgba(240, 96, 66, 0.94)"],
      [0.85, "rgba(252, 172, 60, 0.97)"],
      [1, "rgba(255, 246, 190, 1)"],
    ],
    speed: [
      [0, "#ff5a52"],
      [0.3, "#ffa25e"],
      [0.5, "#ffe08a"],
      [0.7, "#c4e6f2"],
      [1, "#46a4f5"],
    ],
  },
  light: {
    land: "#e2e7eb",
    river: "#a9cde8",
    street: "#ffffff",
    arterial: "#ffffff",
    avenue: "#ffffff",
    bridge: "#ffffff",
    border: "#4d5f76",
    dark: "#8a4b00",
    marked: "#111827",
    circle: "#ffffff",
    heat: [
      [0, "rgba(255, 213, 110, 0)"],
      [0.08, "rgba(254, 205, 104, 0.45)"],
      [0.25, "rgba(252, 160, 62, 0.75)"],
      [0.45, "rgba(238, 100, 52, 0.86)"],
      [0.65, "rgba(203, 46, 88, 0.92)"],
      [0.85, "rgba(134, 22, 110, 0.95)"],
      [1, "rgba(62, 8, 92, 0.98)"],
    ],
    speed: [
      [0, "#c81d25"],
      [0.3, "#ec8438"],
      [0.5, "#e3bd45"],
      [0.7, "#78b0c9"],
      [1, "#1463ad"],
    ],
  },
};

/** For the legend: what the map draws, as CSS. */
export function gradient(stops: readonly Stop[]): string {
  const parts = stops.map(([at, colour]) => `${colour} ${Math.round(at * 100)}%`);
  return `linear-gradient(to right, ${parts.join(", ")})`;
}

type Rgba = readonly [number, number, number, number];

/** The colour at a place between 0 and 1; for whoever has no MapLibre to do it. */
export function colourAt(stops: readonly Stop[], at: number): string {
  const place = Math.min(1, Math.max(0, at));
  const next = Math.max(
    1,
    stops.findIndex(([stop]) => stop >= place),
  );
  const [low, lowColour] = stops[next - 1] ?? [0, "#000000"];
  const [high, highColour] = stops[next] ?? [1, "#000000"];
  const share = high > low ? (place - low) / (high - low) : 0;
  const [from, to] = [parseColour(lowColour), parseColour(highColour)];
  const mixed = from.map((part, index) => part + ((to[index] ?? 0) - part) * share);
  const [red = 0, green = 0, blue = 0] = mixed.map(Math.round);
  return `rgba(${red}, ${green}, ${blue}, ${(mixed[3] ?? 1).toFixed(3)})`;
}

function parseColour(colour: string): Rgba {
  if (colour.startsWith("#")) {
    const channel = (start: number): number => parseInt(colour.slice(start, start + 2), 16);
    return [channel(1), channel(3), channel(5), 1];
  }
  const [red = 0, green = 0, blue = 0, alpha = 1] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return [red, green, blue, alpha];
}
