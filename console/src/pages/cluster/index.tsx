// Who leads what, who is in sync, and what happens when somebody is killed.

import { NO_LOAD, cluster, loads } from "../../lib/cluster";
import { isLocal } from "../../lib/console_info";
import type { ClusterState } from "../../lib/types";
import { Button } from "../../ui/Button";
import type { PageProps } from "../../ui/LazyPage";
import { Page } from "../../ui/Page";
import { ResourceView } from "../../ui/states";
import { BrokerCard } from "./BrokerCard";
import { ServiceCard } from "./ServiceCard";
import { Timeline } from "./Timeline";
import { TopicList } from "./TopicList";
import { killController } from "./questions";
import "./cluster.css";

export function ClusterPage(_: PageProps) {
  const resource = cluster.state.value;
  const canKill = isLocal() && resource.data !== null;
  return (
    <Page
      name="cluster"
      title="Cluster"
      lead="Brokers, leaders and in-sync replicas, as they are and as they change."
      actions={
        canKill && (
          <Button
            icon="bolt"
            data-testid="kill-controller"
            disabled={resource.data?.controller === null}
            onClick={() => void killController()}
          >
            Kill the controller
          </Button>
        )
      }
    >
      <ResourceView
        resource={resource}
        what="Asking the gateway about the cluster"
        retry={() => cluster.refresh()}
      >
        {(state) => <Content state={state} />}
      </ResourceView>
    </Page>
  );
}

function Content({ state }: { state: ClusterState }) {
  const services = state.nodes ?? [];
  const load = loads(state.topics);
  return (
    <div class="stack">
      <section aria-label="Brokers" class="brokers">
        {state.brokers.map((broker) => (
          <BrokerCard
            key={broker.id}
            broker={broker}
            load={load.get(broker.id) ?? NO_LOAD}
            isController={broker.id === state.controller}
          />
        ))}
      </section>
      {services.length > 0 && (
        <section aria-label="Other processes" class="services">
          {services.map((node) => (
            <ServiceCard key={node.id} node={node} isController={node.id === state.controller} />
          ))}
        </section>
      )}
      <div class="columns">
        <TopicList topics={state.topics} />
        <Timeline />
      </div>
    </div>
  );
}
