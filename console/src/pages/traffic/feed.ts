// The heat map as it comes: the stream's events turned into frames to draw and figures to show.
//
// A batch of the job may come as several events, one for each window that it changed. They are applied
// together, so that nothing is drawn of a batch that has come by half.

import { signal, type ReadonlySignal } from "@preact/signals";
import { consoleInfo } from "../../lib/console_info";
import { followStream, type ServerEvent, type StreamState } from "../../lib/stream";
import { CityLoader } from "./city";
import { offsetOf } from "./clock";
import { NO_HEAT, applyUpdate, blend, summarize, type HeatState } from "./heat";
import { HISTORY_MAX, NO_QUADRANTS, observe, type QuadrantState } from "./quadrants";
import { follow } from "./scale";
import { ServerClock } from "./server_clock";
import { isRefusal } from "./status";
import type { Frame } from "./view";
import { parseUpdate, type HeatUpdate } from "./wire";

const PATH = "/v1/traffic/heatmap/stream";
/** However long the cookie's question takes, the stream is then tried. */
const COOKIE_MS_MAX = 2_000;

export interface Figures {
  readonly heat: HeatState;
  readonly frame: Frame;
  readonly rate: number;
  readonly speed: number | null;
  /** Rates of the last updates, oldest first. */
  readonly history: readonly number[];
  /** When event time went on last, by this browser's clock. */
  readonly advancedAt: number;
}

export interface Connection {
  readonly stream: StreamState;
  readonly openedAt: number | null;
  readonly refusals: number;
}

const CLOSED: Connection = { stream: { kind: "connecting" }, openedAt: null, refusals: 0 };

export class TrafficFeed {
  readonly city = new CityLoader();
  readonly clock = new ServerClock();
  readonly #figures = signal<Figures | null>(null);
  readonly #connection = signal<Connection>(CLOSED);
  #heat: HeatState = NO_HEAT;
  #quadrants: QuadrantState = NO_QUADRANTS;
  #reference: number | null = null;
  #updates: HeatUpdate[] = [];
  /** After a break the stream tells again what is recent: what was known before is not mixed with it. */
  #isFresh = true;

  get figures(): ReadonlySignal<Figures | null> {
    return this.#figures;
  }

  get connection(): ReadonlySignal<Connection> {
    return this.#connection;
  }

  start(): () => void {
    let stopStream: (() => void) | undefined;
    const stopClock = this.clock.start();
    const stopWaiting = whenViewer(() => {
      stopStream = followStream(PATH, {
        onEvent: (event) => this.#receive(event),
        onState: (state) => this.#connected(state),
      });
    });
    // Quadrants are those of the city, which may come after the first heat, or be another one some day.
    const forgetCity = this.city.city.subscribe(() => {
      this.#quadrants = NO_QUADRANTS;
      this.#compute();
    });
    this.city.load();
    return () => {
      forgetCity();
      stopWaiting();
      stopStream?.();
      stopClock();
      this.city.stop();
    };
  }

  #connected(stream: StreamState): void {
    const before = this.#connection.peek();
    const isRefused = stream.kind === "waiting" && isRefusal(stream.failure);
    // The viewer's cookie is another one after the gateway has started anew.
    if (isRefused) consoleInfo.refresh();
    if (stream.kind === "open") {
      this.#isFresh = true;
      if (before.openedAt !== null || before.stream.kind === "waiting") this.city.load();
    }
    this.#connection.value = {
      stream,
      openedAt: stream.kind === "open" ? Date.now() : stream.kind === "connecting" ? before.openedAt : null,
      refusals: isRefused ? before.refusals + 1 : stream.kind === "open" ? 0 : before.refusals,
    };
  }

  #receive(event: ServerEvent): void {
    if (event.name !== "message") return; // what ends a stream is told by its state
    const update = parseUpdate(parseJson(event.data));
    if (!update) return;
    this.#updates.push(update);
    if (this.#updates.length === 1) queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    const updates = this.#updates;
    this.#updates = [];
    this.#heat = updates.reduce(applyUpdate, this.#isFresh ? NO_HEAT : this.#heat);
    this.#isFresh = false;
    this.#compute();
  }

  #compute(): void {
    if (this.#heat.windows.length === 0) return;
    const cells = blend(this.#heat);
    this.#reference = follow(
      this.#reference,
      cells.map((cell) => cell.rate),
    );
    const grid = this.city.city.peek()?.grid;
    if (grid) this.#quadrants = observe(this.#quadrants, grid, this.#heat, cells);
    const { rate, speed } = summarize(cells);
    const known = this.#figures.peek();
    this.#figures.value = {
      heat: this.#heat,
      frame: {
        cells,
        reference: this.#reference,
        quadrants: this.#quadrants.activity,
        newest: this.#heat.newest,
      },
      rate,
      speed,
      history: [...(known?.history ?? []), rate].slice(-HISTORY_MAX),
      advancedAt: this.#advancedAt(known),
    };
  }

  #advancedAt(known: Figures | null): number {
    const { newest } = this.#heat;
    const now = Date.now();
    if (newest === null) return known?.advancedAt ?? now;
    // The first that we hear may be old news.
    if (!known || known.heat.newest === null)
      return Math.min(now, newest - offsetOf(this.clock.bounds.peek()));
    return newest === known.heat.newest ? known.advancedAt : now;
  }
}

/** Once the gateway has handed out the viewer's cookie, or has failed to; not for ever. */
function whenViewer(then: () => void): () => void {
  let isDone = false;
  let unsubscribe: (() => void) | undefined;
  const finish = (): void => {
    if (isDone) return;
    isDone = true;
    clearTimeout(timer);
    then();
    queueMicrotask(() => unsubscribe?.());
  };
  const timer = setTimeout(finish, COOKIE_MS_MAX);
  unsubscribe = consoleInfo.state.subscribe(({ at, failure }) => {
    if (at !== null || failure !== null) finish();
  });
  return () => {
    isDone = true;
    clearTimeout(timer);
    unsubscribe?.();
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // not ours
  }
}
