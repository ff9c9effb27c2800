import { useState } from "preact/hooks";
import { count } from "../../lib/format";
import { Button } from "../../ui/Button";
import { Table } from "../../ui/Table";
import type { Digest } from "./digest";
import { cellText, RESULTS, type ResultColumn, type ResultRow } from "./results";

const FIRST_ROWS = 10;
const MORE_ROWS = 100;

export function ResultTable({ digest, total }: { digest: Digest; total: number }) {
  const [most, setMost] = useState(FIRST_ROWS);
  const { columns, title } = RESULTS[digest.query];
  const rows = digest.rows.slice(0, most);
  return (
    <div data-testid="result-table">
      <Table
        caption={`${title}: the first ${count(rows.length)} of ${count(total)} rows`}
        quiet={false}
        columns={columns.map((column) => ({ name: column.title, numeric: isNumeric(column) }))}
      >
        {rows.map((row, index) => (
          <Row key={index} columns={columns} row={row} />
        ))}
      </Table>
      {rows.length < digest.rows.length && (
        <Button small data-testid="show-more" onClick={() => setMost(most + MORE_ROWS)}>
          Show more
        </Button>
      )}
      {rows.length === digest.rows.length && rows.length < total && (
        <p class="muted">All {count(total)} are in the download.</p>
      )}
    </div>
  );
}

function Row({ columns, row }: { columns: readonly ResultColumn[]; row: ResultRow }) {
  const [first, ...others] = columns;
  return (
    <tr>
      {first !== undefined && (
        <th scope="row" class={`result-cell ${first.name === "legId" ? "mono" : ""}`}>
          {cellText(first, row)}
        </th>
      )}
      {others.map((column) => (
        <td key={column.name} class={`result-cell ${isNumeric(column) ? "numeric" : ""}`}>
          {cellText(column, row)}
        </td>
      ))}
    </tr>
  );
}

function isNumeric({ kind }: ResultColumn): boolean {
  return kind === "fare" || kind === "miles";
}
