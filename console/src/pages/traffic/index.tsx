// Cars light up the city: the heat map that Spark computes, live.

import { useComputed } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { now } from "../../lib/clock";
import { rate } from "../../lib/format";
import type { PageProps } from "../../ui/LazyPage";
import { Card, Page } from "../../ui/Page";
import { ErrorState, Loading } from "../../ui/states";
import { BusyCells, quadrantName, speedText } from "./BusyCells";
import { CityCanvas } from "./CityCanvas";
import type { City } from "./city";
import { TrafficFeed, type Figures } from "./feed";
import { keyOf } from "./heat";
import { Legend } from "./Legend";
import type { MapMode } from "./map_style";
import { NoHeatMap, Refused } from "./NoHeatMap";
import { KeyFigures, QuadrantList, TotalsCard } from "./Panel";
import { StatusLine } from "./StatusLine";
import { statusOf, type Status } from "./status";
import "./traffic.css";
import type { Place, Pointed } from "./view";

export function TrafficPage(_: PageProps) {
  const feed = useMemo(() => new TrafficFeed(), []);
  useEffect(() => feed.start(), [feed]);
  const status = useComputed(() =>
    statusOf({
      now: Math.max(now.value, feed.connection.value.openedAt ?? 0),
      ...feed.connection.value,
      hasHeat: feed.figures.value !== null,
      advancedAt: feed.figures.value?.advancedAt ?? null,
    }),
  ).value;
  return (
    <Page
      name="traffic"
      title="Traffic"
      lead="Cars write their positions to the topic of their quadrant; Spark counts them, cell by cell."
      actions={<StatusLine status={status} />}
    >
      <Body feed={feed} status={status} />
    </Page>
  );
}

function Body({ feed, status }: { feed: TrafficFeed; status: Status }) {
  const city = feed.city.city.value;
  const figures = feed.figures.value;
  const cityFailure = feed.city.failure.value;
  if (status.kind === "refused") return <Refused message={status.message} />;
  if (status.kind === "failed") return <ErrorState error={status.failure} />;
  if (city === null && cityFailure !== null)
    return <ErrorState error={cityFailure} retry={() => feed.city.load()} />;
  if (city === null || (status.kind === "loading" && figures === null))
    return <Loading what="Loading the city" />;
  if (status.kind === "empty" && city.streets.length === 0)
    return (
      <Card>
        <NoHeatMap hasCars={false} />
      </Card>
    );
  return <Live feed={feed} city={city} figures={figures} status={status} />;
}

interface LiveProps {
  feed: TrafficFeed;
  city: City;
  figures: Figures | null;
  status: Status;
}

function Live({ feed, city, figures, status }: LiveProps) {
  const [mode, setMode] = useState<MapMode>("heat");
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [marked, setMarked] = useState<Place | null>(null);
  const isOld = status.kind === "stale" || status.kind === "disconnected";
  return (
    <div class={figures === null ? "traffic is-empty" : "traffic"}>
      <section class={isOld ? "traffic-map is-old" : "traffic-map"} aria-label="Map" data-stale={isOld}>
        <div class="map-bar">
          <ModeChoice mode={mode} onMode={setMode} />
          <Legend mode={mode} reference={figures?.frame.reference ?? null} />
        </div>
        <div class="map-field">
          <CityCanvas
            feed={feed}
            city={city}
            mode={mode}
            marked={marked ?? pointed?.place ?? null}
            onPoint={setPointed}
          />
          {pointed && figures && <CellNote pointed={pointed} figures={figures} city={city} />}
          {figures === null && (
            <div class="map-cover">
              <NoHeatMap hasCars />
            </div>
          )}
        </div>
      </section>
      {figures !== null && (
        <div class="stack">
          <KeyFigures figures={figures} clock={feed.clock.bounds.value} />
          <QuadrantList quadrants={figures.frame.quadrants} />
          {figures.heat.totals && <TotalsCard totals={figures.heat.totals} />}
        </div>
      )}
      {figures !== null && (
        <div class="traffic-table">
          <BusyCells cells={figures.frame.cells} grid={city.grid} onMark={setMarked} />
        </div>
      )}
    </div>
  );
}

function ModeChoice({ mode, onMode }: { mode: MapMode; onMode: (mode: MapMode) => void }) {
  const choice = (value: MapMode, text: string) => (
    <label>
      <input
        type="radio"
        name="map-mode"
        value={value}
        checked={mode === value}
        onChange={() => onMode(value)}
      />
      {text}
    </label>
  );
  return (
    <fieldset class="map-mode segments">
      <legend class="visually-hidden">What the colours show</legend>
      {choice("heat", "Heat")}
      {choice("speed", "Speed")}
    </fieldset>
  );
}

/** The numbers of the cell under the pointer, or in the middle of the map for the keyboard. */
function CellNote({ pointed, figures, city }: { pointed: Pointed; figures: Figures; city: City }) {
  const key = keyOf(pointed.place);
  const cell = figures.frame.cells.find((each) => keyOf(each) === key);
  return (
    <div
      class="cell-note"
      role="status"
      data-testid="cell-note"
      style={{ left: `${pointed.x}px`, top: `${pointed.y}px` }}
    >
      <strong>Cell {key}</strong> <span class="muted">in {quadrantName(city.grid, pointed.place)}</span>
      <br />
      {cell ? `${rate(cell.rate)}, ${speedText(cell.speed)}` : "no positions"}
    </div>
  );
}
