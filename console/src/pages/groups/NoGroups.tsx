import { Command } from "../../ui/Command";
import { Card } from "../../ui/Page";
import { Empty } from "../../ui/states";

export function NoGroups() {
  return (
    <Card>
      <Empty title="Nobody reads in a group yet" icon="groups">
        <p>A consumer that names a group appears here, with its lag:</p>
        <Command>penstock consume orders --group billing</Command>
      </Empty>
    </Card>
  );
}
