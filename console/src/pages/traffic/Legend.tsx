// What the colours mean.

import { rate } from "../../lib/format";
import { shownTheme } from "../../lib/theme";
import type { MapMode } from "./map_style";
import { PALETTES, SPEED_MAX, gradient } from "./palette";
import { rateOf } from "./scale";

export function Legend({ mode, reference }: { mode: MapMode; reference: number | null }) {
  const palette = PALETTES[shownTheme.value];
  const isHeat = mode === "heat";
  const marks = isHeat ? heatMarks(reference) : ["0", `${SPEED_MAX / 2}`, `${SPEED_MAX} or more`];
  return (
    <div class="map-legend">
      <p>{isHeat ? "Positions per second and cell" : "Mean speed in km/h; larger circles are busier"}</p>
      <div
        class="legend-bar"
        style={{ background: gradient(isHeat ? palette.heat : palette.speed) }}
        aria-hidden="true"
      />
      <div class="legend-marks">
        {marks.map((mark) => (
          <span key={mark}>{mark}</span>
        ))}
      </div>
    </div>
  );
}

function heatMarks(reference: number | null): string[] {
  if (reference === null) return ["few", "many"];
  return ["0", rate(rateOf(0.5, reference)), `${rate(reference)} or more`];
}
