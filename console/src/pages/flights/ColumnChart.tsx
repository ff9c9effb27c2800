import { compact, count } from "../../lib/format";
import { ChartFrame } from "./ChartFrame";
import { bands, linear, ticks } from "./scales";

const HEIGHT = 220;
const LEFT = 46;
const RIGHT = 22;
const BOTTOM = 40;
const TOP = 12;
const LABEL_WIDTH = 52;
const BAR_WIDTH_MAX = 110;
const GAP = 0.25;
const GAP_BETWEEN_BINS = 0.04;

export interface ChartColumn {
  /** Below it. */
  label: string;
  /** What it stands for, in words. */
  range: string;
  value: number;
}

interface Props {
  title: string;
  summary: string;
  testid: string;
  /** What the labels count. */
  axis: string;
  columns: readonly ChartColumn[];
  /** Of bins: labels stand between them, before the first and behind the last. */
  edges?: readonly string[];
}

/** Flights, counted. */
export function ColumnChart({ title, summary, testid, axis, columns, edges }: Props) {
  return (
    <ChartFrame
      title={title}
      summary={summary}
      testid={testid}
      height={HEIGHT}
      columns={[axis, { name: "Flights", numeric: true }]}
      rows={columns.map(({ range, value }) => [range, count(value)])}
    >
      {(width) => <Drawing width={width} axis={axis} columns={columns} edges={edges} />}
    </ChartFrame>
  );
}

interface DrawingProps {
  width: number;
  axis: string;
  columns: readonly ChartColumn[];
  edges: readonly string[] | undefined;
}

function Drawing({ width, axis, columns, edges }: DrawingProps) {
  const floor = HEIGHT - BOTTOM;
  const room = Math.max(1, width - LEFT - RIGHT);
  const marks = ticks(Math.max(...columns.map(({ value }) => value)), 4, 1);
  const heightOf = linear(marks.at(-1) ?? 0, floor - TOP);
  const places =
    edges === undefined
      ? bands(columns.length, room, GAP, BAR_WIDTH_MAX)
      : bands(columns.length, room, GAP_BETWEEN_BINS);
  const labels = edges ?? columns.map(({ label }) => label);
  const step = room / Math.max(1, columns.length);
  const first = edges === undefined ? step / 2 : 0;
  // Where there is no room for all labels, every second has one, or every third …
  const every = Math.ceil(LABEL_WIDTH / step);
  return (
    <>
      {marks.map((mark) => (
        <g key={mark}>
          <line
            class="chart-line"
            x1={LEFT}
            x2={LEFT + room}
            y1={floor - heightOf(mark)}
            y2={floor - heightOf(mark)}
          />
          <text x={LEFT - 8} y={floor - heightOf(mark) + 4} text-anchor="end">
            {compact(mark)}
          </text>
        </g>
      ))}
      {columns.map(({ range, value }, index) => (
        <rect
          key={range}
          class="chart-bar"
          x={LEFT + (places[index]?.start ?? 0)}
          y={floor - heightOf(value)}
          width={places[index]?.width}
          height={heightOf(value)}
        >
          <title>{`${range}: ${count(value)}`}</title>
        </rect>
      ))}
      {labels.map(
        (label, index) =>
          index % every === 0 && (
            <text key={label} x={LEFT + first + index * step} y={floor + 16} text-anchor="middle">
              {label}
            </text>
          ),
      )}
      <text x={LEFT + room / 2} y={HEIGHT - 6} text-anchor="middle">
        {axis}
      </text>
    </>
  );
}
