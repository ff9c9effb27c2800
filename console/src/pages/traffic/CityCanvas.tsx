// The map in the page: makes a drawing of the city, gives it frames, and says what it points at.

import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { messageOf } from "../../lib/failure";
import { loadMapLibre } from "../../lib/maplibre";
import { shownTheme } from "../../lib/theme";
import { tileUrl, tileUrlProblem } from "../../lib/tiles";
import { Button } from "../../ui/Button";
import type { City } from "./city";
import { CityMap, hasWebGl } from "./city_map";
import type { TrafficFeed } from "./feed";
import { FlatMap } from "./flat_map";
import type { MapMode, StyleOptions } from "./map_style";
import type { CityView, Frame, Place, Pointed, ViewEvents } from "./view";

declare global {
  interface Window {
    /** What is on the screen, for tests and for the benchmark of the map's lag. */
    __penstockMap?: { map: CityMap["map"] | null; shownAt: number; newest: number | null; cells: number };
  }
}

interface Props {
  feed: TrafficFeed;
  city: City;
  mode: MapMode;
  marked: Place | null;
  onPoint: (pointed: Pointed | null) => void;
}

type Trouble = { kind: "plain" } | { kind: "failed"; message: string };

export function CityCanvas({ feed, city, mode, marked, onPoint }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const view = useRef<CityView | null>(null);
  const [trouble, setTrouble] = useState<Trouble | null>(null);
  const [tries, setTries] = useState(0);
  const tiles = tileUrlProblem(tileUrl.value) === null ? tileUrl.value : "";

  useEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    let isGone = false;
    setTrouble(null);
    const options: StyleOptions = { ...city, theme: shownTheme.peek(), mode, tileUrl: tiles };
    const events = eventsOf(view, onPoint, (message) => setTrouble({ kind: "failed", message }));
    open(element, options, events).then(
      (made) => {
        if (isGone) return made.remove();
        view.current = made;
        if (made instanceof FlatMap) setTrouble({ kind: "plain" });
        const figures = feed.figures.peek();
        if (figures) made.show(figures.frame);
      },
      (error: unknown) => {
        if (!isGone) setTrouble({ kind: "failed", message: messageOf(error) });
      },
    );
    return () => {
      isGone = true;
      view.current?.remove();
      view.current = null;
      delete window.__penstockMap;
    };
  }, [city, tiles, tries]);

  useSignalEffect(() => {
    const figures = feed.figures.value;
    if (figures) view.current?.show(figures.frame);
  });
  useSignalEffect(() => {
    // Read first: a view that is not there yet must not keep us from hearing of changes.
    const theme = shownTheme.value;
    view.current?.setTheme(theme);
  });
  useEffect(() => view.current?.setMode(mode), [mode]);
  useEffect(() => view.current?.mark(marked), [marked?.row, marked?.col]);

  return (
    <>
      <div ref={container} class="city-canvas" data-testid="traffic-map" />
      {trouble?.kind !== "plain" && <ZoomButtons view={view} />}
      {trouble !== null && <TroubleNote trouble={trouble} retry={() => setTries(tries + 1)} />}
      {tiles !== "" && <p class="map-credit">Tiles: {hostOf(tiles)}</p>}
    </>
  );
}

async function open(element: HTMLElement, options: StyleOptions, events: ViewEvents): Promise<CityView> {
  if (!hasWebGl()) return new FlatMap(element, options, events);
  return new CityMap(await loadMapLibre(), element, options, events);
}

function eventsOf(
  view: { current: CityView | null },
  onPoint: Props["onPoint"],
  onFailure: ViewEvents["onFailure"],
): ViewEvents {
  const onShown = (frame: Frame): void => {
    const map = view.current instanceof CityMap ? view.current.map : null;
    window.__penstockMap = { map, shownAt: Date.now(), newest: frame.newest, cells: frame.cells.length };
  };
  return { onShown, onPoint, onFailure };
}

function ZoomButtons({ view }: { view: { current: CityView | null } }) {
  return (
    <div class="map-zoom" role="group" aria-label="Zoom">
      <Button icon="plus" aria-label="Zoom in" onClick={() => view.current?.zoom(1)} />
      <Button aria-label="Zoom out" onClick={() => view.current?.zoom(-1)}>
        <span class="minus" aria-hidden="true" />
      </Button>
      <Button aria-label="Show all of the city" onClick={() => view.current?.zoom(null)}>
        <svg
          class="icon"
          width="17"
          height="17"
          viewBox="0 0 24 24"
          fill="none"
          stroke="currentColor"
          stroke-width="1.8"
          aria-hidden="true"
        >
          <path d="M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5" />
        </svg>
      </Button>
    </div>
  );
}

function TroubleNote({ trouble, retry }: { trouble: Trouble; retry: () => void }) {
  if (trouble.kind === "plain") {
    return (
      <p class="map-note" role="status" data-testid="map-plain">
        This browser has no WebGL: a simpler map is drawn.
      </p>
    );
  }
  return (
    <div class="map-note" role="alert" data-testid="map-failed">
      <span>The map has a problem: {trouble.message}.</span>
      <Button small icon="refresh" onClick={retry}>
        Draw it again
      </Button>
    </div>
  );
}

function hostOf(url: string): string {
  return /^https?:\/\/([^/]+)/i.exec(url)?.[1] ?? url;
}
