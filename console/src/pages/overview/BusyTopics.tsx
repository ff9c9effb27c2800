import { isUnderReplicated, messagesSoFar, rates } from "../../lib/cluster";
import { compact, count, rate } from "../../lib/format";
import { href } from "../../lib/router";
import type { Topic } from "../../lib/types";
import { Badge } from "../../ui/Badge";
import { Card } from "../../ui/Page";
import { Sparkline } from "../../ui/Sparkline";
import { Table } from "../../ui/Table";

const SHOWN_MAX = 8;

/** The topics with the most messages coming in. */
export function BusyTopics({ topics }: { topics: Topic[] }) {
  const history = rates.value;
  const busiest = topics
    .map((topic) => ({ topic, perSecond: history.latest(topic.name) ?? 0 }))
    .sort((a, b) => b.perSecond - a.perSecond || (a.topic.name < b.topic.name ? -1 : 1))
    .slice(0, SHOWN_MAX);
  return (
    <Card title="Busiest topics" aside={<a href={href("topics")}>All {count(topics.length)} topics</a>}>
      <Table
        caption="Topics with the most messages coming in"
        columns={[
          "Topic",
          { name: "Last minute", optional: true },
          { name: "Messages in", numeric: true },
          { name: "So far", numeric: true, optional: true },
          "Replicas",
        ]}
      >
        {busiest.map(({ topic }) => (
          <Row key={topic.name} topic={topic} />
        ))}
      </Table>
    </Card>
  );
}

function Row({ topic }: { topic: Topic }) {
  const perSecond = rates.value.latest(topic.name);
  const behind = topic.partitions.filter(isUnderReplicated).length;
  return (
    <tr>
      <th scope="row">
        <a href={href("topics", topic.name)}>{topic.name}</a>
      </th>
      <td class="spark-cell optional">
        <Sparkline values={rates.value.samples(topic.name)} label={`${topic.name}, now ${rate(perSecond)}`} />
      </td>
      <td class="numeric">{rate(perSecond)}</td>
      <td class="numeric muted optional">{compact(messagesSoFar([topic]))}</td>
      <td>
        {behind === 0 ? (
          <Badge tone="good">in sync</Badge>
        ) : (
          <Badge tone="warn">{`${behind} not in sync`}</Badge>
        )}
      </td>
    </tr>
  );
}
