// Names of quadrants on the map, as HTML: text on MapLibre's own canvas would need fonts from somewhere.

import type * as MapLibre from "maplibre-gl";
import { rate } from "../../lib/format";
import { quadrantBox, quadrantsOf, type Grid } from "./grid";
import type { QuadrantActivity } from "./quadrants";

/** More would hide the map. */
const LABELS_MAX = 36;

interface Label {
  readonly marker: MapLibre.Marker;
  readonly element: HTMLElement;
  readonly rate: HTMLElement;
}

export class QuadrantLabels {
  readonly #labels = new Map<string, Label>();

  constructor(maplibre: typeof MapLibre, map: MapLibre.Map, grid: Grid) {
    const quadrants = quadrantsOf(grid);
    if (quadrants.length > LABELS_MAX) return;
    for (const quadrant of quadrants) {
      const [west, , , north] = quadrantBox(grid, quadrant);
      const element = document.createElement("div");
      const figure = document.createElement("span");
      element.className = "quadrant-label";
      element.append(quadrant.name, figure);
      const marker = new maplibre.Marker({ element, anchor: "top-left", offset: [6, 6] });
      marker.setLngLat([west, north]).addTo(map);
      // The side panel says the same to those who do not see the map.
      element.setAttribute("aria-hidden", "true");
      this.#labels.set(quadrant.name, { marker, element, rate: figure });
    }
  }

  show(quadrants: readonly QuadrantActivity[]): void {
    for (const each of quadrants) {
      const label = this.#labels.get(each.quadrant.name);
      if (!label) continue;
      label.element.classList.toggle("is-dark", each.dark);
      label.rate.textContent = each.dark ? "dark" : rate(each.rate);
    }
  }

  remove(): void {
    for (const { marker } of this.#labels.values()) marker.remove();
    this.#labels.clear();
  }
}
