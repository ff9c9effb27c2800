import { cluster } from "../../lib/cluster";
import { consoleInfo } from "../../lib/console_info";
import { Card } from "../../ui/Page";

export function About() {
  const info = consoleInfo.state.value.data;
  const id = cluster.state.value.data?.cluster_id ?? info?.cluster_id;
  return (
    <Card title="About">
      <dl class="about">
        <dt>Penstock</dt>
        <dd>{info?.version ?? "–"}</dd>
        <dt>Cluster</dt>
        <dd>
          <code>{id ?? "–"}</code>
        </dd>
        <dt>Gateway</dt>
        <dd>
          <code>{location.origin}</code>
        </dd>
        <dt>Faults from here</dt>
        <dd>
          {info === null
            ? "–"
            : info.local
              ? "yes, the cluster is on the gateway's machine"
              : "no, the cluster is elsewhere"}
        </dd>
        <dt>More</dt>
        <dd>
          <a href="/docs">Endpoints of the gateway</a> · <a href="/metrics">Metrics</a> ·{" "}
          <a href="/console/licenses.txt">Licences</a>
        </dd>
      </dl>
    </Card>
  );
}
