// A topic: its partitions, who leads each, and which replicas have fallen behind.

import { useId, useState } from "preact/hooks";
import { isInternal, isUnderReplicated, rates } from "../../lib/cluster";
import { isLocal } from "../../lib/console_info";
import { count, plural, rate } from "../../lib/format";
import type { Partition, Topic } from "../../lib/types";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Table } from "../../ui/Table";
import { killLeader } from "./questions";

const SHOWN_MAX = 32;

export function TopicPartitions({ topic, isFew }: { topic: Topic; isFew: boolean }) {
  const [isOpen, setOpen] = useState<boolean | null>(null);
  const bodyId = useId();
  // Until somebody decides: open when there is room for it.
  const isShown = isOpen ?? (isFew && !isInternal(topic.name) && topic.partitions.length <= SHOWN_MAX);
  return (
    <section class="topic" data-testid={`topic-${topic.name}`}>
      <div class="topic-head">
        <h3>
          <button
            type="button"
            class="disclosure"
            aria-expanded={isShown}
            aria-controls={bodyId}
            onClick={() => setOpen(!isShown)}
          >
            {topic.name}
          </button>
        </h3>
        <span class="muted topic-note">
          {plural(topic.partitions.length, "partition")} · {rate(rates.value.latest(topic.name))}
        </span>
        <SyncBadge topic={topic} />
        {isLocal() && (
          <Button
            small
            look="quiet"
            icon="bolt"
            data-testid={`kill-leader-${topic.name}`}
            onClick={() => void killLeader(topic.name)}
          >
            Kill leader<span class="visually-hidden"> of {topic.name}</span>
          </Button>
        )}
      </div>
      <div id={bodyId} hidden={!isShown}>
        {isShown && <Partitions topic={topic} />}
      </div>
    </section>
  );
}

function Partitions({ topic }: { topic: Topic }) {
  const [isWhole, setWhole] = useState(false);
  const partitions = isWhole ? topic.partitions : topic.partitions.slice(0, SHOWN_MAX);
  return (
    <>
      <Table
        caption={`Partitions of ${topic.name}`}
        columns={[
          "Partition",
          "Replicas",
          { name: "Leader", optional: true },
          { name: "Epoch", numeric: true, optional: true },
          { name: "High watermark", numeric: true },
        ]}
      >
        {partitions.map((partition) => (
          <PartitionRow key={partition.partition} partition={partition} />
        ))}
      </Table>
      {partitions.length < topic.partitions.length && (
        <Button small onClick={() => setWhole(true)}>
          Show all {count(topic.partitions.length)}
        </Button>
      )}
    </>
  );
}

function SyncBadge({ topic }: { topic: Topic }) {
  const leaderless = topic.partitions.filter((partition) => partition.leader === null).length;
  const behind = topic.partitions.filter(isUnderReplicated).length;
  if (leaderless > 0) return <Badge tone="bad">{`${leaderless} without leader`}</Badge>;
  if (behind > 0) return <Badge tone="warn">{`${behind} not in sync`}</Badge>;
  return <Badge tone="good">in sync</Badge>;
}

function PartitionRow({ partition }: { partition: Partition }) {
  return (
    <tr>
      <th scope="row">{partition.partition}</th>
      <td>
        <ul class="replicas">
          {partition.replicas.map((replica) => (
            <Replica key={replica} replica={replica} partition={partition} />
          ))}
        </ul>
      </td>
      <td class="optional">
        {partition.leader === null ? <Badge tone="bad">none</Badge> : `broker ${partition.leader}`}
      </td>
      <td class="numeric muted optional">{partition.leader_epoch}</td>
      <td class="numeric">{count(partition.high_watermark)}</td>
    </tr>
  );
}

function Replica({ replica, partition }: { replica: number; partition: Partition }) {
  const isBehind = !partition.isr.includes(replica);
  const isLeader = partition.leader === replica;
  const role = isLeader ? "leader" : isBehind ? "not in sync" : "in sync";
  const look = isLeader ? "replica-leader" : isBehind ? "replica-behind" : "";
  return (
    <li class={`replica ${look}`} title={`Broker ${replica}: ${role}`}>
      <span class="visually-hidden">broker </span>
      {replica}
      <span class="visually-hidden">, {role}</span>
    </li>
  );
}
