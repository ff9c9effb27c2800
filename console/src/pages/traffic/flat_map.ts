// The city on a plain canvas, for browsers without WebGL: streets, quadrants and coloured cells, without
// zoom.

import { cellAt, cellBox, quadrantBox, type Box, type Grid } from "./grid";
import type { MapMode, StyleOptions } from "./map_style";
import { PALETTES, SPEED_MAX, colourAt, type MapTheme, type Palette } from "./palette";
import { heatOf } from "./scale";
import type { CityView, Frame, Place, ViewEvents } from "./view";

const PADDING = 16;
const WIDTHS: Readonly<Record<string, number>> = {
  river: 14,
  street: 1,
  arterial: 1.6,
  avenue: 2.4,
  bridge: 3,
};

export class FlatMap implements CityView {
  readonly #canvas = document.createElement("canvas");
  readonly #options: StyleOptions;
  readonly #events: ViewEvents;
  readonly #resized: ResizeObserver;
  #theme: MapTheme;
  #mode: MapMode;
  #frame: Frame | null = null;
  #marked: Place | null = null;
  #asked = 0;

  constructor(container: HTMLElement, options: StyleOptions, events: ViewEvents) {
    this.#options = options;
    this.#events = events;
    this.#theme = options.theme;
    this.#mode = options.mode;
    this.#canvas.className = "flat-map";
    this.#canvas.setAttribute("role", "img");
    this.#canvas.setAttribute(
      "aria-label",
      "Map of the city; the table of the busiest cells has the same figures",
    );
    container.append(this.#canvas);
    this.#canvas.addEventListener("mousemove", (event) => this.#point(event));
    this.#canvas.addEventListener("mouseleave", () => events.onPoint(null));
    this.#resized = new ResizeObserver(() => this.#ask());
    this.#resized.observe(container);
  }

  show(frame: Frame): void {
    this.#frame = frame;
    this.#ask();
  }

  setMode(mode: MapMode): void {
    this.#mode = mode;
    this.#ask();
  }

  setTheme(theme: MapTheme): void {
    this.#theme = theme;
    this.#ask();
  }

  mark(place: Place | null): void {
    this.#marked = place;
    this.#ask();
  }

  zoom(): void {
    // All of it is always seen.
  }

  remove(): void {
    cancelAnimationFrame(this.#asked);
    this.#resized.disconnect();
    this.#canvas.remove();
  }

  #ask(): void {
    cancelAnimationFrame(this.#asked);
    this.#asked = requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    const context = this.#canvas.getContext("2d");
    if (!context) return;
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    this.#canvas.width = width * devicePixelRatio;
    this.#canvas.height = height * devicePixelRatio;
    context.scale(devicePixelRatio, devicePixelRatio);
    const colours = PALETTES[this.#theme];
    context.fillStyle = colours.land;
    context.fillRect(0, 0, width, height);
    const projection = new Projection(this.#options.grid, width, height);
    this.#drawStreets(context, projection, colours);
    if (this.#frame) this.#drawCells(context, projection, colours, this.#frame);
    this.#drawQuadrants(context, projection, colours);
    if (this.#marked) {
      context.strokeStyle = colours.marked;
      context.lineWidth = 2;
      context.strokeRect(...projection.rect(cellBox(this.#options.grid, this.#marked.row, this.#marked.col)));
    }
    if (this.#frame) this.#events.onShown(this.#frame);
  }

  #drawStreets(context: CanvasRenderingContext2D, projection: Projection, colours: Palette): void {
    context.lineCap = context.lineJoin = "round";
    for (const kind of ["river", "street", "arterial", "avenue", "bridge"] as const) {
      context.strokeStyle = colours[kind];
      context.lineWidth = WIDTHS[kind] ?? 1;
      context.beginPath();
      for (const street of this.#options.streets) {
        if (street.kind !== kind) continue;
        street.path.forEach(([lon, lat], index) => {
          const [x, y] = projection.point(lon, lat);
          if (index === 0) context.moveTo(x, y);
          else context.lineTo(x, y);
        });
      }
      context.stroke();
    }
  }

  #drawCells(
    context: CanvasRenderingContext2D,
    projection: Projection,
    colours: Palette,
    frame: Frame,
  ): void {
    for (const cell of frame.cells) {
      if (this.#mode === "heat")
        context.fillStyle = colourAt(colours.heat, heatOf(cell.rate, frame.reference));
      else if (cell.speed === null) continue;
      else context.fillStyle = colourAt(colours.speed, cell.speed / SPEED_MAX);
      context.fillRect(...projection.rect(cellBox(this.#options.grid, cell.row, cell.col)));
    }
  }

  #drawQuadrants(context: CanvasRenderingContext2D, projection: Projection, colours: Palette): void {
    context.font = "12px system-ui, sans-serif";
    for (const { quadrant, dark } of this.#frame?.quadrants ?? []) {
      const rect = projection.rect(quadrantBox(this.#options.grid, quadrant));
      context.strokeStyle = context.fillStyle = dark ? colours.dark : colours.border;
      context.lineWidth = dark ? 2.5 : 1;
      context.setLineDash(dark ? [7, 5] : []);
      context.strokeRect(...rect);
      context.fillText(dark ? `${quadrant.name} dark` : quadrant.name, rect[0] + 6, rect[1] + 16);
    }
    context.setLineDash([]);
  }

  #point(event: MouseEvent): void {
    const { offsetX: x, offsetY: y } = event;
    const projection = new Projection(
      this.#options.grid,
      this.#canvas.clientWidth,
      this.#canvas.clientHeight,
    );
    const place = cellAt(this.#options.grid, ...projection.place(x, y));
    this.#events.onPoint(place && { place, x, y });
  }
}

/** A city is small: degrees are straight, and a degree of longitude shorter than one of latitude. */
class Projection {
  readonly #grid: Grid;
  readonly #scale: readonly [number, number];
  readonly #corner: readonly [number, number];

  constructor(grid: Grid, width: number, height: number) {
    this.#grid = grid;
    const shortening = Math.cos((((grid.south + grid.north) / 2) * Math.PI) / 180) || 1;
    const across = (grid.east - grid.west) * shortening;
    const up = grid.north - grid.south;
    const scale = Math.max(0, Math.min((width - 2 * PADDING) / across, (height - 2 * PADDING) / up));
    this.#scale = [scale * shortening, scale];
    this.#corner = [(width - across * scale) / 2, (height - up * scale) / 2];
  }

  point(lon: number, lat: number): [number, number] {
    const [x, y] = this.#corner;
    return [x + (lon - this.#grid.west) * this.#scale[0], y + (this.#grid.north - lat) * this.#scale[1]];
  }

  place(x: number, y: number): [number, number] {
    const [left, top] = this.#corner;
    return [this.#grid.west + (x - left) / this.#scale[0], this.#grid.north - (y - top) / this.#scale[1]];
  }

  rect([west, south, east, north]: Box): [number, number, number, number] {
    const [left, top] = this.point(west, north);
    const [right, bottom] = this.point(east, south);
    return [left, top, right - left, bottom - top];
  }
}
