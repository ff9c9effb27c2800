// The picture of a query's rows; query 3 has none that says more than its table.

import { count, plural } from "../../lib/format";
import { ColumnChart } from "./ColumnChart";
import { FareChart } from "./FareChart";
import type { Digest } from "./digest";

const BINS_MAX = 16;

export function ResultChart({ digest }: { digest: Digest }) {
  if (digest.query === "q1") return <Stopovers digest={digest} />;
  if (digest.query === "q2") return <Distances digest={digest} />;
  if (digest.query === "q4") return <FareChart routes={digest.routes} />;
  return null;
}

function Stopovers({ digest }: { digest: Digest }) {
  const found = [...digest.stopovers].sort(([one], [other]) => one - other);
  const most = found.reduce((best, each) => (each[1] > best[1] ? each : best), found[0] ?? [0, 0]);
  return (
    <ColumnChart
      testid="chart-stopovers"
      title="Flights by number of stopovers"
      summary={
        `${plural(most[1], "flight")} of ${count(digest.count)} have ${most[0]} stopovers, ` +
        "more than any other number."
      }
      axis="stopovers"
      columns={found.map(([stopovers, flights]) => ({
        label: count(stopovers),
        range: plural(stopovers, "stopover"),
        value: flights,
      }))}
    />
  );
}

function Distances({ digest }: { digest: Digest }) {
  const bins = digest.distances.bins(BINS_MAX);
  const { above } = digest.distances;
  const [first, last] = [bins[0], bins.at(-1)];
  return (
    <ColumnChart
      testid="chart-distances"
      title="Flights by distance"
      summary={
        (first !== undefined && last !== undefined
          ? `From ${count(first.from)} to ${count(last.to)} miles, ${plural(digest.distances.count, "flight")}.`
          : "No distances.") + (above > 0 ? ` ${count(above)} are longer than any chart.` : "")
      }
      axis="miles"
      edges={[...bins.map(({ from }) => count(from)), count(last?.to)]}
      columns={bins.map((bin) => ({
        label: count(bin.from),
        range: `${count(bin.from)} to ${count(bin.to)} miles`,
        value: bin.count,
      }))}
    />
  );
}
