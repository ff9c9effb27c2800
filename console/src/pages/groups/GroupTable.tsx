import { count } from "../../lib/format";
import { lagHistory } from "../../lib/groups";
import { href } from "../../lib/router";
import type { Group } from "../../lib/types";
import { Card } from "../../ui/Page";
import { Sparkline } from "../../ui/Sparkline";
import { Table } from "../../ui/Table";
import { GroupState } from "./GroupState";

export function GroupTable({ groups }: { groups: Group[] }) {
  const sorted = [...groups].sort((a, b) => b.lag - a.lag || a.group.localeCompare(b.group));
  return (
    <Card>
      <Table
        caption="Consumer groups, most behind first"
        columns={[
          "Group",
          "State",
          { name: "Members", numeric: true, optional: true },
          { name: "Partitions", numeric: true, optional: true },
          { name: "Lag, last 2 min", optional: true },
          { name: "Lag", numeric: true },
        ]}
      >
        {sorted.map((group) => (
          <tr key={group.group} data-testid={`group-${group.group}`}>
            <th scope="row">
              <a href={href("groups", group.group)}>{group.group}</a>
            </th>
            <td>
              <GroupState state={group.state} />
            </td>
            <td class="numeric optional">{count(group.members.length)}</td>
            <td class="numeric optional">{count(group.partitions.length)}</td>
            <td class="lag-chart optional">
              <Sparkline
                values={lagHistory.value.get(group.group) ?? []}
                label={`Lag of ${group.group}, now ${count(group.lag)}`}
              />
            </td>
            <td class="numeric">
              <strong>{count(group.lag)}</strong>
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
