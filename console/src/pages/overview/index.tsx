// What runs, whether it is well, what comes in, and where to go from here.

import { cluster, isInternal } from "../../lib/cluster";
import { consoleInfo } from "../../lib/console_info";
import type { ClusterState } from "../../lib/types";
import type { PageProps } from "../../ui/LazyPage";
import { Page } from "../../ui/Page";
import { ResourceView } from "../../ui/states";
import { Attention } from "./Attention";
import { BusyTopics } from "./BusyTopics";
import { Figures } from "./Figures";
import { NewestEvents } from "./NewestEvents";
import { NextSteps } from "./NextSteps";
import { Quickstart } from "./Quickstart";
import { WhatRuns } from "./WhatRuns";
import "./overview.css";

export function OverviewPage(_: PageProps) {
  const resource = cluster.state.value;
  return (
    <Page name="overview" title="Overview" lead={<Lead state={resource.data} />}>
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

function Lead({ state }: { state: ClusterState | null }) {
  const version = consoleInfo.state.value.data?.version;
  return (
    <>
      Cluster <code>{state?.cluster_id ?? "…"}</code>
      {version !== undefined && <> · Penstock {version}</>}
    </>
  );
}

function Content({ state }: { state: ClusterState }) {
  const topics = state.topics.filter((topic) => !isInternal(topic.name));
  return (
    <div class="stack">
      <Attention state={state} />
      <Figures state={state} topics={topics} />
      <div class="columns">
        <div class="stack">
          {topics.length === 0 ? <Quickstart state={state} /> : <BusyTopics topics={topics} />}
          <NextSteps />
        </div>
        <div class="stack">
          <WhatRuns state={state} />
          <NewestEvents />
        </div>
      </div>
    </div>
  );
}
