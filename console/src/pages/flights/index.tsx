// The place of the flights optimiser.

import { href } from "../../lib/router";
import type { PageProps } from "../../ui/LazyPage";
import { Card, Page } from "../../ui/Page";
import { Empty } from "../../ui/states";

export function FlightsPage(_: PageProps) {
  return (
    <Page
      name="flights"
      title="Flights"
      lead="Four questions about millions of itineraries, answered while they are uploaded."
    >
      <Card>
        <Empty title="Jobs will appear here" icon="flights">
          <p>
            This page will show flights jobs: what is uploaded, how far Spark is, and the results of the four
            queries as they arrive. Until then, the same queries run from the command line on files of your
            own.
          </p>
          <p>
            <a href={href("traffic")}>Meanwhile, watch the traffic</a>
          </p>
        </Empty>
      </Card>
    </Page>
  );
}
