import { useState } from "preact/hooks";
import { ApiError } from "../../lib/failure";
import { count, plural } from "../../lib/format";
import { href } from "../../lib/router";
import { usePolledPath } from "../../lib/use_poll";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card, Page } from "../../ui/Page";
import { Table } from "../../ui/Table";
import { Empty, ResourceView } from "../../ui/states";
import { DeleteTopic } from "./DeleteTopic";
import { Messages } from "./Messages";
import { Produce } from "./Produce";
import { Settings } from "./Settings";
import { topicPath } from "./message_log";
import type { Setting } from "./config";

/** A partition of `GET /v1/topics/{topic}`. */
export interface PartitionDetail {
  readonly partition: number;
  readonly leader: number | null;
  readonly replicas: readonly number[];
  readonly isr: readonly number[];
  /** Offsets; null while there is no leader. */
  readonly start: number | null;
  readonly end: number | null;
}

export interface TopicDetails {
  readonly name: string;
  readonly partitions: readonly PartitionDetail[];
  readonly config: Readonly<Record<string, Setting>>;
}

const INTERVAL_MS = 2_000;

export function TopicDetail({ name }: { name: string }) {
  const { resource, refresh } = usePolledPath<TopicDetails>(topicPath(name), INTERVAL_MS);
  const [isDeleting, setDeleting] = useState(false);
  const [written, setWritten] = useState(0);
  const isGone = resource.failure instanceof ApiError && resource.failure.status === 404;
  return (
    <Page
      name="topics"
      title={name}
      lead={<a href={href("topics")}>All topics</a>}
      actions={
        !isGone && (
          <Button icon="trash" data-testid="delete-topic" onClick={() => setDeleting(true)}>
            Delete
          </Button>
        )
      }
    >
      {isGone ? (
        <Card>
          <Empty title={`There is no topic ${name}`} icon="search">
            <p>
              It may have been deleted. <a href={href("topics")}>See those that are there</a>
            </p>
          </Empty>
        </Card>
      ) : (
        <ResourceView resource={resource} what="Loading the topic" retry={refresh}>
          {(topic) => (
            <div class="stack" data-testid="topic-detail">
              <Messages topic={topic} written={written} />
              <div class="topic-columns">
                <Produce
                  topic={topic}
                  onStored={() => {
                    refresh();
                    setWritten(written + 1);
                  }}
                />
                <Partitions topic={topic} />
              </div>
              <Settings topic={topic} onChanged={refresh} />
            </div>
          )}
        </ResourceView>
      )}
      {isDeleting && <DeleteTopic name={name} onClose={() => setDeleting(false)} />}
    </Page>
  );
}

function Partitions({ topic }: { topic: TopicDetails }) {
  const columns = [
    { name: "Partition", numeric: true },
    { name: "Leader", numeric: true },
    "Replicas",
    { name: "First offset", numeric: true, optional: true },
    { name: "Next offset", numeric: true },
  ];
  return (
    <Card
      title="Partitions"
      aside={<span class="muted">{plural(topic.partitions.length, "partition")}</span>}
    >
      <div class="bounded">
        <Table caption={`Partitions of ${topic.name}`} columns={columns}>
          {topic.partitions.map((each) => (
            <tr key={each.partition}>
              <th scope="row" class="numeric">
                {each.partition}
              </th>
              <td class="numeric">{each.leader ?? <Badge tone="bad">none</Badge>}</td>
              <td>
                <Replicas partition={each} />
              </td>
              <td class="numeric optional">{count(each.start)}</td>
              <td class="numeric">{count(each.end)}</td>
            </tr>
          ))}
        </Table>
      </div>
    </Card>
  );
}

function Replicas({ partition }: { partition: PartitionDetail }) {
  const behind = partition.replicas.filter((replica) => !partition.isr.includes(replica));
  return (
    <>
      {partition.replicas.join(", ")}{" "}
      {behind.length > 0 && <Badge tone="warn">{`${behind.join(", ")} not in sync`}</Badge>}
    </>
  );
}
