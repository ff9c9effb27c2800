import { count, duration } from "../../lib/format";
import { Card } from "../../ui/Page";
import { Table } from "../../ui/Table";
import { fare } from "./results";
import type { Summary } from "./wire";

/** What the service says at the end: what it counted, and what it left out and why. */
export function JobSummary({ summary }: { summary: Summary }) {
  const reasons = reasonsOf(summary);
  return (
    <Card title="Summary" testid="job-summary">
      <dl class="job-figures">
        <Figure
          name="Average fare"
          value={typeof summary.average_fare === "number" ? fare(summary.average_fare) : "–"}
        />
        {summary.seconds !== undefined && <Figure name="Took" value={duration(summary.seconds)} />}
      </dl>
      {reasons.length > 0 && (
        <div class="job-reasons">
          <Table
            caption="Rows that were not used"
            quiet={false}
            columns={["Reason", "Where", { name: "Rows", numeric: true }]}
          >
            {reasons.map(({ reason, where, rows }) => (
              <tr key={`${where}/${reason}`}>
                <th scope="row">{reason}</th>
                <td>{where}</td>
                <td class="numeric">{count(rows)}</td>
              </tr>
            ))}
          </Table>
        </div>
      )}
    </Card>
  );
}

function Figure({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

interface Reason {
  reason: string;
  where: string;
  rows: number;
}

function reasonsOf({ rejected = {}, left_out = {} }: Summary): Reason[] {
  const everywhere = Object.entries(rejected).map(([reason, rows]) => ({ reason, where: "rejected", rows }));
  const queries = Object.entries(left_out).flatMap(([query, reasons]) =>
    Object.entries(reasons).map(([reason, rows]) => ({ reason, where: `left out of ${query}`, rows })),
  );
  return [...everywhere, ...queries].filter(({ rows }) => rows > 0);
}
