// Consumer groups: who reads, and how far behind.

import { groups } from "../../lib/groups";
import { href } from "../../lib/router";
import type { Group } from "../../lib/types";
import { usePoll } from "../../lib/use_poll";
import type { PageProps } from "../../ui/LazyPage";
import { Page } from "../../ui/Page";
import { Empty, ResourceView } from "../../ui/states";
import { GroupDetails } from "./GroupDetails";
import { GroupTable } from "./GroupTable";
import { NoGroups } from "./NoGroups";
import "./groups.css";

export function GroupsPage({ path }: PageProps) {
  const resource = usePoll(groups).value;
  const [name] = path;
  return (
    <Page
      name="groups"
      title={name ?? "Groups"}
      lead={
        name === undefined ? (
          "Consumer groups, their members, and how far behind they are."
        ) : (
          <a href={href("groups")}>All groups</a>
        )
      }
    >
      <ResourceView resource={resource} what="Asking for consumer groups" retry={() => groups.refresh()}>
        {(all) =>
          name === undefined ? (
            <All groups={all} />
          ) : (
            <One group={all.find((each) => each.group === name)} name={name} />
          )
        }
      </ResourceView>
    </Page>
  );
}

function All({ groups }: { groups: Group[] }) {
  return groups.length === 0 ? <NoGroups /> : <GroupTable groups={groups} />;
}

function One({ group, name }: { group: Group | undefined; name: string }) {
  if (group !== undefined) return <GroupDetails group={group} />;
  return (
    <Empty title={`There is no group ${name}`} icon="groups">
      <p>
        <a href={href("groups")}>All groups</a>
      </p>
    </Empty>
  );
}
