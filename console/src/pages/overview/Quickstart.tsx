// For a cluster without topics: what to type first.

import type { ClusterState } from "../../lib/types";
import { Command } from "../../ui/Command";
import { Card } from "../../ui/Page";
import { Empty } from "../../ui/states";
import { optionsFor } from "./quickstart_options";

export function Quickstart({ state }: { state: ClusterState }) {
  const options = optionsFor(state);
  return (
    <Card>
      <Empty title="The cluster is empty" icon="topics">
        <p>There are no topics yet. Here is how to begin; every Kafka client works, too.</p>
      </Empty>
      <ol class="quickstart">
        <li>
          <h3>Create a topic</h3>
          <Command>{`penstock topics create orders --partitions 3${options}`}</Command>
        </li>
        <li>
          <h3>Write to it</h3>
          <Command>{`echo "one espresso" | penstock produce orders${options}`}</Command>
        </li>
        <li>
          <h3>Read it</h3>
          <Command>{`penstock consume orders --from beginning -n 1${options}`}</Command>
        </li>
        <li>
          <h3>Or let cars drive</h3>
          <Command>{`penstock traffic simulate --cars 2000${options}`}</Command>
        </li>
      </ol>
    </Card>
  );
}
