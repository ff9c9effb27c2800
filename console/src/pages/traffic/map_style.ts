// The map as a MapLibre style: only lines, areas and heat, so that no font, sprite or tile is ever asked for.
//
// Widths grow with the zoom as the ground does, so streets, cells and heat keep their proportions. The kernel
// of MapLibre's heat map is a bell of a third of the radius; with 1.6 cells neighbours just melt together,
// and a plain of equally hot cells adds up to 0.71 times their heat, which the intensity makes good.

import type {
  ExpressionSpecification,
  GeoJSONSourceSpecification,
  LayerSpecification,
  SourceSpecification,
  StyleSpecification,
} from "maplibre-gl";
import { cellPixelsAtZoom0, quadrantBox, quadrantsOf, ringOf, type Grid } from "./grid";
import { PALETTES, SPEED_MAX, type MapTheme, type Palette, type Stop } from "./palette";
import type { Street } from "./wire";

export type MapMode = "heat" | "speed";

export const CELLS = "cells";
export const QUADRANTS = "quadrants";
export const MARKED = "marked";
export const HATCH = "hatch";

const RADIUS_CELLS = 1.6;
const INTENSITY = 1.4;
const ZOOM_MAX = 22;
const TILE_PIXELS = 256;
const NOTHING: GeoJSON.FeatureCollection = { type: "FeatureCollection", features: [] };

export interface StyleOptions {
  readonly grid: Grid;
  readonly streets: readonly Street[];
  readonly theme: MapTheme;
  readonly mode: MapMode;
  /** Template of raster tiles; empty for none. */
  readonly tileUrl: string;
}

/** `points` are the cells, with ids. */
export function styleOf(options: StyleOptions, points: GeoJSON.FeatureCollection): StyleSpecification {
  const sources: Record<string, SourceSpecification> = {
    streets: collection(options.streets.map(streetFeature)),
    [QUADRANTS]: collection(
      quadrantsOf(options.grid).map((each, id) => quadrantFeature(options.grid, each, id)),
    ),
    // The heat of a point reaches far beyond it, also into the next tile.
    [CELLS]: { type: "geojson", data: points, buffer: 256, tolerance: 0, maxzoom: 13 },
    [MARKED]: { type: "geojson", data: NOTHING },
  };
  if (options.tileUrl) sources.tiles = { type: "raster", tiles: [options.tileUrl], tileSize: TILE_PIXELS };
  return { version: 8, sources, layers: layersOf(options) };
}

export function layersOf({ grid, theme, mode, tileUrl }: StyleOptions): LayerSpecification[] {
  const colours = PALETTES[theme];
  return [
    { id: "land", type: "background", paint: { "background-color": colours.land } },
    ...(tileUrl ? [tileLayer(theme)] : []),
    ...streetLayers(colours, theme, tileUrl !== ""),
    heatLayer(grid, colours, mode),
    ...streetsAbove(theme),
    speedLayer(grid, colours, mode),
    ...quadrantLayers(colours),
    { id: "marked", type: "line", source: MARKED, paint: { "line-color": colours.marked, "line-width": 2 } },
  ];
}

function tileLayer(theme: MapTheme): LayerSpecification {
  // Tiles are made for light pages; in the dark they are dimmed rather than turned into something else.
  const paint = theme === "dark" ? { "raster-brightness-max": 0.45, "raster-saturation": -0.5 } : {};
  return { id: "tiles", type: "raster", source: "tiles", paint };
}

function streetLayers(colours: Palette, theme: MapTheme, onTiles: boolean): LayerSpecification[] {
  const opacity = onTiles ? 0.35 : 1;
  const street = (
    kind: "river" | "street" | "arterial" | "avenue" | "bridge",
    width: number,
    id = kind as string,
    colour = colours[kind],
  ): LayerSpecification => ({
    id,
    type: "line",
    source: "streets",
    filter: ["==", ["get", "kind"], kind],
    layout: { "line-cap": kind === "river" ? "butt" : "round", "line-join": "round" },
    paint: {
      "line-color": colour,
      "line-opacity": opacity,
      "line-width": onGround(width, kind === "river" ? 3 : 0.6),
    },
  });
  // Bridges get a rim, so that they lie on the river rather than in it.
  const rim = theme === "dark" ? colours.land : "#9fb4c6";
  return [
    street("river", 17),
    street("street", 0.9),
    street("arterial", 1.9),
    street("avenue", 3),
    street("bridge", 5, "bridge-rim", rim),
    street("bridge", 3),
  ];
}

/** The larger streets again, faintly, so that heat lies on a city rather than over it. */
function streetsAbove(theme: MapTheme): LayerSpecification[] {
  return [
    {
      id: "above",
      type: "line",
      source: "streets",
      filter: ["in", ["get", "kind"], ["literal", ["avenue", "bridge", "arterial"]]],
      layout: { "line-cap": "round", "line-join": "round" },
      paint: {
        "line-color": theme === "dark" ? "#000000" : "#ffffff",
        "line-opacity": theme === "dark" ? 0.28 : 0.4,
        "line-width": onGround(1.4, 0.5),
      },
    },
  ];
}

function heatLayer(grid: Grid, colours: Palette, mode: MapMode): LayerSpecification {
  return {
    id: "heat",
    type: "heatmap",
    source: CELLS,
    layout: { visibility: mode === "heat" ? "visible" : "none" },
    paint: {
      "heatmap-weight": state("heat"),
      "heatmap-intensity": INTENSITY,
      "heatmap-radius": onGroundOf(grid, RADIUS_CELLS),
      "heatmap-color": [
        "interpolate",
        ["linear"],
        ["heatmap-density"],
        ...colours.heat.flat(),
      ] as ExpressionSpecification,
      "heatmap-opacity": 0.92,
    },
  };
}

function speedLayer(grid: Grid, colours: Palette, mode: MapMode): LayerSpecification {
  const base = cellPixelsAtZoom0(grid);
  const radius = (zoom: number): ExpressionSpecification => ["*", state("size"), base * 2 ** zoom];
  const opacity: ExpressionSpecification = ["case", ["boolean", ["feature-state", "moves"], false], 0.92, 0];
  return {
    id: "speed",
    type: "circle",
    source: CELLS,
    layout: { visibility: mode === "speed" ? "visible" : "none" },
    paint: {
      "circle-color": [
        "interpolate",
        ["linear"],
        state("speed"),
        ...scaled(colours.speed),
      ] as ExpressionSpecification,
      "circle-radius": [
        "interpolate",
        ["exponential", 2],
        ["zoom"],
        0,
        radius(0),
        ZOOM_MAX,
        radius(ZOOM_MAX),
      ],
      "circle-stroke-color": colours.circle,
      "circle-stroke-width": 1,
      "circle-opacity": opacity,
      "circle-stroke-opacity": opacity,
    },
  };
}

function state(name: "heat" | "size" | "speed"): ExpressionSpecification {
  return ["number", ["feature-state", name], 0];
}

function quadrantLayers(colours: Palette): LayerSpecification[] {
  const isDark: ExpressionSpecification = ["boolean", ["get", "dark"], false];
  return [
    {
      id: "dark-area",
      type: "fill",
      source: QUADRANTS,
      filter: isDark,
      paint: { "fill-pattern": HATCH, "fill-opacity": 0.8 },
    },
    {
      id: "borders",
      type: "line",
      source: QUADRANTS,
      filter: ["!", isDark],
      paint: { "line-color": colours.border, "line-width": 1, "line-opacity": 0.4 },
    },
    {
      id: "dark-borders",
      type: "line",
      source: QUADRANTS,
      filter: isDark,
      paint: { "line-color": colours.dark, "line-width": 2.5, "line-dasharray": [2.5, 2], "line-offset": 2 },
    },
  ];
}

/** Pixels at zoom 12, as wide on the ground at any zoom, but never thinner than `least`. */
function onGround(pixels: number, least: number): ExpressionSpecification {
  const at = (zoom: number): number => Math.max(least, pixels * 2 ** (zoom - 12));
  return ["interpolate", ["exponential", 2], ["zoom"], 8, at(8), 12, at(12), 18, at(18)];
}

function onGroundOf(grid: Grid, cells: number): ExpressionSpecification {
  const base = cellPixelsAtZoom0(grid) * cells;
  return ["interpolate", ["exponential", 2], ["zoom"], 0, base, ZOOM_MAX, base * 2 ** ZOOM_MAX];
}

function scaled(stops: readonly Stop[]): (number | string)[] {
  return stops.flatMap(([at, colour]) => [at * SPEED_MAX, colour]);
}

function collection(features: GeoJSON.Feature[]): GeoJSONSourceSpecification {
  return { type: "geojson", data: { type: "FeatureCollection", features } };
}

function streetFeature(street: Street): GeoJSON.Feature {
  const coordinates = street.path.map(([lon, lat]) => [lon, lat]);
  return {
    type: "Feature",
    properties: { kind: street.kind },
    geometry: { type: "LineString", coordinates },
  };
}

export function quadrantFeature(
  grid: Grid,
  quadrant: { row: number; col: number; name: string },
  id: number,
  dark = false,
): GeoJSON.Feature {
  const coordinates = [ringOf(quadrantBox(grid, quadrant))];
  return {
    type: "Feature",
    id,
    properties: { name: quadrant.name, dark },
    geometry: { type: "Polygon", coordinates },
  };
}

/** Diagonal lines, for areas that nothing is known of. */
export function hatchImage(theme: MapTheme): { width: number; height: number; data: Uint8ClampedArray } {
  const size = 12;
  const data = new Uint8ClampedArray(size * size * 4);
  const [tone, alpha] = theme === "dark" ? [255, 34] : [40, 40];
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      if ((x + y) % size < 2) data.set([tone, tone, tone, alpha], (y * size + x) * 4);
    }
  }
  return { width: size, height: size, data };
}
