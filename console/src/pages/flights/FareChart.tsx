import { compact } from "../../lib/format";
import { ChartFrame } from "./ChartFrame";
import type { RouteFares } from "./digest";
import { fare } from "./results";
import { linear, ticks } from "./scales";

const ROW = 26;
const LEFT = 92;
const RIGHT = 24;
const BOTTOM = 24;

/** Of each route a bar up to its average fare, and a line from there to its highest. */
export function FareChart({ routes }: { routes: readonly RouteFares[] }) {
  const [dearest] = routes;
  return (
    <ChartFrame
      testid="chart-fares"
      title="Fares of the dearest routes"
      summary={dearest === undefined ? "No routes." : summaryOf(dearest)}
      height={routes.length * ROW + BOTTOM}
      columns={["Route", { name: "Average", numeric: true }, { name: "Highest", numeric: true }]}
      rows={routes.map(({ route, average, max }) => [route, fare(average), fare(max)])}
      legend={
        <p class="chart-legend" aria-hidden="true">
          <span class="legend-average" /> average <span class="legend-highest" /> highest
        </p>
      }
    >
      {(width) => <Drawing width={width} routes={routes} />}
    </ChartFrame>
  );
}

function summaryOf({ route, average, max }: RouteFares): string {
  return `${route} is the dearest: ${fare(average)} on average, ${fare(max)} at most.`;
}

function Drawing({ width, routes }: { width: number; routes: readonly RouteFares[] }) {
  const floor = routes.length * ROW;
  const marks = ticks(Math.max(...routes.map(({ max }) => max)), width > 480 ? 6 : 3);
  const placeOf = linear(marks.at(-1) ?? 0, width - LEFT - RIGHT);
  return (
    <>
      {marks.map((mark) => (
        <g key={mark}>
          <line class="chart-line" x1={LEFT + placeOf(mark)} x2={LEFT + placeOf(mark)} y1={0} y2={floor} />
          <text x={LEFT + placeOf(mark)} y={floor + 17} text-anchor="middle">
            {compact(mark)}
          </text>
        </g>
      ))}
      {routes.map(({ route, average, max }, index) => {
        const middle = index * ROW + ROW / 2;
        const end = LEFT + placeOf(max);
        return (
          <g key={route}>
            <title>{`${route}: ${fare(average)} on average, ${fare(max)} at most`}</title>
            <text x={LEFT - 8} y={middle + 4} text-anchor="end">
              {route}
            </text>
            <rect class="chart-bar" x={LEFT} y={middle - 7} width={placeOf(average)} height={14} />
            <path
              class="chart-reach"
              d={`M${LEFT + placeOf(average)} ${middle}H${end}M${end} ${middle - 6}v12`}
            />
          </g>
        );
      })}
    </>
  );
}
