// The city drawn by MapLibre. It owns the map; everything about what is shown comes from outside as frames.
//
// A frame is on the screen when a picture was rendered after its cells got their states. Frames that come
// faster than pictures can be rendered replace each other.

import type * as MapLibre from "maplibre-gl";
import { CellStates } from "./cell_states";
import { cellAt, cellBox, quadrantsOf, ringOf, type Grid } from "./grid";
import {
  CELLS,
  HATCH,
  MARKED,
  QUADRANTS,
  hatchImage,
  layersOf,
  quadrantFeature,
  styleOf,
  type MapMode,
  type StyleOptions,
} from "./map_style";
import type { MapTheme } from "./palette";
import { QuadrantLabels } from "./quadrant_labels";
import type { CityView, Frame, Place, ViewEvents } from "./view";

const PADDING = 28;
const PADDING_NARROW = 10;
const NARROW_PIXELS = 480;
const ZOOM_MAX = 15.5;
/** How far beyond the city one may look, in city widths. */
const BEYOND = 0.6;
const PIXEL_RATIO_MAX = 2;

export class CityMap implements CityView {
  readonly map: MapLibre.Map;
  readonly #options: StyleOptions;
  readonly #events: ViewEvents;
  readonly #cells: CellStates;
  readonly #labels: QuadrantLabels;
  #theme: MapTheme;
  #mode: MapMode;
  #waiting: Frame | null = null;
  #drawing: Frame | null = null;
  #darkNames = "";
  #isLoaded = false;

  constructor(maplibre: typeof MapLibre, container: HTMLElement, options: StyleOptions, events: ViewEvents) {
    this.#options = options;
    this.#events = events;
    this.#theme = options.theme;
    this.#mode = options.mode;
    this.#cells = new CellStates(options.grid);
    this.map = new maplibre.Map({
      container,
      style: styleOf(options, this.#cells.points),
      bounds: boundsOf(options.grid, 0),
      fitBoundsOptions: { padding: paddingIn(container) },
      maxBounds: boundsOf(options.grid, BEYOND),
      maxZoom: ZOOM_MAX,
      maxPitch: 0,
      dragRotate: false,
      pitchWithRotate: false,
      touchPitch: false,
      renderWorldCopies: false,
      // Tiles come as images then, and not by fetch(): the page's policy lets it fetch from its gateway alone.
      refreshExpiredTiles: false,
      attributionControl: false,
      // One finger scrolls the page, two move the map: on a phone the map is nearly all there is.
      cooperativeGestures: matchMedia("(pointer: coarse)").matches,
      fadeDuration: 0,
      pixelRatio: Math.min(devicePixelRatio, PIXEL_RATIO_MAX),
      locale: {
        "Map.Title":
          "Map of the city: arrow keys move it, plus and minus zoom, Enter reads the cell in the middle",
      },
    });
    this.map.touchZoomRotate.disableRotation();
    this.map.keyboard.disableRotation();
    this.#labels = new QuadrantLabels(maplibre, this.map, options.grid);
    this.#listen();
  }

  show(frame: Frame): void {
    this.#waiting = frame;
    if (this.#isLoaded) this.#draw();
  }

  setMode(mode: MapMode): void {
    this.#mode = mode;
    if (!this.#isLoaded) return;
    this.map.setLayoutProperty("heat", "visibility", mode === "heat" ? "visible" : "none");
    this.map.setLayoutProperty("speed", "visibility", mode === "speed" ? "visible" : "none");
  }

  setTheme(theme: MapTheme): void {
    this.#theme = theme;
    if (!this.#isLoaded) return;
    for (const layer of layersOf({ ...this.#options, theme, mode: this.#mode })) {
      for (const [name, value] of Object.entries(layer.paint ?? {})) {
        this.map.setPaintProperty(layer.id, name as never, value as never);
      }
    }
    this.map.updateImage(HATCH, hatchImage(theme));
  }

  mark(place: Place | null): void {
    if (!this.#isLoaded) return;
    const rings = place ? [ringOf(cellBox(this.#options.grid, place.row, place.col))] : [];
    this.#source(MARKED).setData({ type: "MultiLineString", coordinates: rings }).catch(this.#report);
  }

  zoom(steps: number | null): void {
    if (steps !== null) this.map.zoomTo(this.map.getZoom() + steps);
    else this.map.fitBounds(boundsOf(this.#options.grid, 0), { padding: paddingIn(this.map.getContainer()) });
  }

  remove(): void {
    this.#labels.remove();
    this.map.remove();
  }

  #listen(): void {
    const { map } = this;
    // With a listener MapLibre does not write failures, such as missing tiles, into the browser's log.
    map.on("error", ({ error }) => this.#report(error));
    map.once("style.load", () => this.#begin());
    map.on("render", () => this.#rendered());
    // The last picture may have been rendered just before its source was loaded: then no other follows it.
    map.on("idle", () => this.#rendered());
    map.on("mousemove", ({ lngLat, point }) => this.#point(lngLat, point));
    map.on("click", ({ lngLat, point }) => this.#point(lngLat, point));
    map.on("mouseout", () => this.#events.onPoint(null));
    map.on("movestart", () => this.#events.onPoint(null));
    map.getCanvas().addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.#point(map.getCenter(), map.project(map.getCenter()));
      if (event.key === "Escape") this.#events.onPoint(null);
    });
    map.getCanvas().addEventListener("blur", () => this.#events.onPoint(null));
  }

  #begin(): void {
    this.#isLoaded = true;
    this.map.addImage(HATCH, hatchImage(this.#theme));
    // Both may have been chosen anew while the map was loading.
    this.setTheme(this.#theme);
    this.setMode(this.#mode);
    if (this.#waiting) this.#draw();
  }

  #draw(): void {
    const frame = this.#waiting;
    if (!frame) return;
    this.#waiting = null;
    const { points, states } = this.#cells.changes(frame.cells, frame.reference);
    if (points) this.#source(CELLS).setData(points).catch(this.#report);
    for (const [id, state] of states) this.map.setFeatureState({ source: CELLS, id }, state);
    this.#drawing = frame;
    this.map.triggerRepaint();
    this.#drawQuadrants(frame);
  }

  #drawQuadrants(frame: Frame): void {
    this.#labels.show(frame.quadrants);
    const dark = new Set(frame.quadrants.filter((each) => each.dark).map((each) => each.quadrant.name));
    const names = [...dark].join(" ");
    if (names === this.#darkNames) return;
    this.#darkNames = names;
    const { grid } = this.#options;
    const features = quadrantsOf(grid).map((each, id) =>
      quadrantFeature(grid, each, id, dark.has(each.name)),
    );
    this.#source(QUADRANTS).setData({ type: "FeatureCollection", features }).catch(this.#report);
  }

  #rendered(): void {
    const frame = this.#drawing;
    if (!frame || !this.map.isSourceLoaded(CELLS)) return;
    this.#drawing = null;
    this.#events.onShown(frame);
  }

  #point({ lng, lat }: MapLibre.LngLat, { x, y }: MapLibre.Point): void {
    const place = cellAt(this.#options.grid, lng, lat);
    this.#events.onPoint(place && { place, x, y });
  }

  #source(id: string): MapLibre.GeoJSONSource {
    const source = this.map.getSource<MapLibre.GeoJSONSource>(id);
    if (!source) throw new Error(`the map has no source ${id}`);
    return source;
  }

  readonly #report = (error: unknown): void => {
    // Work that the map itself has called off, since newer data came or it was removed.
    if (error instanceof Error && error.name === "AbortError") return;
    this.#events.onFailure(error instanceof Error ? error.message : String(error));
  };
}

function paddingIn(container: HTMLElement): number {
  return container.clientWidth < NARROW_PIXELS ? PADDING_NARROW : PADDING;
}

/** All of the city and so much around it, in its own widths. */
function boundsOf(grid: Grid, around: number): [[number, number], [number, number]] {
  const width = (grid.east - grid.west) * around;
  const height = (grid.north - grid.south) * around;
  const south = Math.max(-85, grid.south - height);
  const north = Math.min(85, grid.north + height);
  return [
    [grid.west - width, south],
    [grid.east + width, north],
  ];
}

/** Whether MapLibre can draw here at all. */
export function hasWebGl(): boolean {
  try {
    return document.createElement("canvas").getContext("webgl2") !== null;
  } catch {
    return false;
  }
}
