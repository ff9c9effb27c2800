// What a drawing of the city can do: MapLibre's, or the plain one for browsers without WebGL.

import type { HeatCell } from "./heat";
import type { MapMode } from "./map_style";
import type { MapTheme } from "./palette";
import type { QuadrantActivity } from "./quadrants";

export interface Frame {
  readonly cells: readonly HeatCell[];
  /** The rate that is shown as hot. */
  readonly reference: number | null;
  readonly quadrants: readonly QuadrantActivity[];
  readonly newest: number | null;
}

export interface Place {
  readonly row: number;
  readonly col: number;
}

export interface Pointed {
  readonly place: Place;
  /** Pixels from the top left corner of the map. */
  readonly x: number;
  readonly y: number;
}

export interface CityView {
  show(frame: Frame): void;
  setMode(mode: MapMode): void;
  setTheme(theme: MapTheme): void;
  /** Draws a frame around a cell. */
  mark(place: Place | null): void;
  /** Zooms by so many steps; all of the city for null. */
  zoom(steps: number | null): void;
  remove(): void;
}

export interface ViewEvents {
  /** The frame is on the screen. */
  onShown: (frame: Frame) => void;
  onPoint: (pointed: Pointed | null) => void;
  onFailure: (message: string) => void;
}
