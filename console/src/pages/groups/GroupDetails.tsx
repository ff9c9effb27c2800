import { count, plural } from "../../lib/format";
import { byTopic, lagHistory } from "../../lib/groups";
import { href } from "../../lib/router";
import type { Group, GroupPartition } from "../../lib/types";
import { Card } from "../../ui/Page";
import { Sparkline } from "../../ui/Sparkline";
import { Table } from "../../ui/Table";
import { GroupState } from "./GroupState";

export function GroupDetails({ group }: { group: Group }) {
  const history = lagHistory.value.get(group.group) ?? [];
  return (
    <div class="stack">
      <section class="card group-summary" aria-label="Summary">
        <div>
          <p class="figure-name">Total lag</p>
          <p class="figure-value">{count(group.lag)}</p>
          <p class="figure-note">{plural(group.partitions.length, "partition")}</p>
        </div>
        <Sparkline values={history} label={`Lag of the last two minutes, now ${count(group.lag)}`} />
        <div class="group-facts">
          <GroupState state={group.state} />
          <span class="figure-note">{group.assignor === null ? "" : `assignor ${group.assignor}`}</span>
        </div>
      </section>
      <Members group={group} />
      {byTopic(group).map(([topic, partitions]) => (
        <TopicLag key={topic} topic={topic} partitions={partitions} />
      ))}
    </div>
  );
}

function Members({ group }: { group: Group }) {
  return (
    <Card title={plural(group.members.length, "member")}>
      {group.members.length === 0 ? (
        <p class="muted">
          Nobody reads at the moment. The position is kept, and what comes meanwhile counts as lag.
        </p>
      ) : (
        <Table
          caption="Members of the group"
          columns={["Client", { name: "Host", optional: true }, "Member id"]}
        >
          {group.members.map((member) => (
            <tr key={member["member"]}>
              <th scope="row">{member["client"] ?? "–"}</th>
              <td class="optional">{member["host"] ?? "–"}</td>
              <td class="member-id">
                <code>{member["member"] ?? "–"}</code>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

function TopicLag({ topic, partitions }: { topic: string; partitions: GroupPartition[] }) {
  const most = Math.max(1, ...partitions.map((each) => each.lag ?? 0));
  const total = partitions.reduce((sum, each) => sum + (each.lag ?? 0), 0);
  return (
    <Card
      title={topic}
      aside={
        <span class="muted">
          lag {count(total)} · <a href={href("topics", topic)}>topic</a>
        </span>
      }
    >
      <Table
        caption={`Lag in ${topic}`}
        columns={[
          "Partition",
          { name: "Committed", numeric: true },
          { name: "End", numeric: true, optional: true },
          { name: "Lag", numeric: true },
          { name: "Compared", optional: true },
          { name: "Read by", optional: true },
        ]}
      >
        {partitions.map((each) => (
          <tr key={each.partition}>
            <th scope="row">{each.partition}</th>
            <td class="numeric">{count(each.committed)}</td>
            <td class="numeric optional">{count(each.end)}</td>
            <td class="numeric">
              <strong>{count(each.lag)}</strong>
            </td>
            <td class="lag-share optional">
              {/* The number is beside it. */}
              <span
                class="lag-bar"
                aria-hidden="true"
                style={{ width: `${((each.lag ?? 0) / most) * 100}%` }}
              />
            </td>
            <td class="optional muted">{each.member ?? "nobody"}</td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
