// The address of map tiles. Empty unless somebody sets one: then no request leaves the gateway's origin.

import { stored } from "./storage";

/** A template with {z}, {x} and {y}. */
export const tileUrl = stored("penstock.tiles", () => localStorage);

/** Why `url` is no address of tiles; null if it is one, or is empty. */
export function tileUrlProblem(url: string): string | null {
  if (url === "") return null;
  // The gateway lets the page load pictures from elsewhere by HTTPS only.
  if (!/^https:\/\/\S+$/i.test(url)) return "It has to begin with https://.";
  const missing = ["{z}", "{x}", "{y}"].filter((part) => !url.includes(part));
  return missing.length === 0 ? null : `It needs ${missing.join(", ")}, where the number of the tile goes.`;
}
