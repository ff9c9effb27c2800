// The busiest cells as a table: what the map shows, for those who read rather than look. Going over a row,
// with the mouse or with the keyboard, marks its cell on the map.

import { rate } from "../../lib/format";
import { Card } from "../../ui/Page";
import { Table } from "../../ui/Table";
import { cellCenter, type Grid } from "./grid";
import { busiest, keyOf, type HeatCell } from "./heat";
import type { Place } from "./view";

const ROWS = 10;

interface Props {
  cells: readonly HeatCell[];
  grid: Grid;
  onMark: (place: Place | null) => void;
}

export function BusyCells({ cells, grid, onMark }: Props) {
  return (
    <Card title="Busiest cells" testid="busiest-cells">
      <Table
        caption={`The ${ROWS} busiest cells of the map`}
        columns={[
          "Cell",
          { name: "Place", optional: true },
          "Quadrant",
          { name: "Positions", numeric: true },
          { name: "Speed", numeric: true },
        ]}
      >
        {busiest(cells, ROWS).map((cell) => (
          <Row key={keyOf(cell)} cell={cell} grid={grid} onMark={onMark} />
        ))}
      </Table>
    </Card>
  );
}

function Row({ cell, grid, onMark }: { cell: HeatCell; grid: Grid; onMark: Props["onMark"] }) {
  const mark = (): void => onMark({ row: cell.row, col: cell.col });
  const unmark = (): void => onMark(null);
  return (
    <tr onMouseEnter={mark} onMouseLeave={unmark}>
      <th scope="row">
        <button
          type="button"
          class="cell-button"
          onFocus={mark}
          onBlur={unmark}
          onClick={mark}
          aria-label={`Mark cell ${keyOf(cell)} on the map`}
        >
          {keyOf(cell)}
        </button>
      </th>
      <td class="optional">{placeText(grid, cell)}</td>
      <td>{quadrantName(grid, cell)}</td>
      <td class="numeric">{rate(cell.rate)}</td>
      <td class="numeric">{speedText(cell.speed)}</td>
    </tr>
  );
}

export function quadrantName(grid: Grid, { row, col }: Place): string {
  return `r${Math.floor(row / grid.cells)}.c${Math.floor(col / grid.cells)}`;
}

export function placeText(grid: Grid, { row, col }: Place): string {
  const [lon, lat] = cellCenter(grid, row, col);
  const east = ((lon + 540) % 360) - 180;
  return `${lat.toFixed(4)}, ${east.toFixed(4)}`;
}

export function speedText(speed: number | null): string {
  return speed === null ? "–" : `${Math.round(speed)} km/h`;
}
