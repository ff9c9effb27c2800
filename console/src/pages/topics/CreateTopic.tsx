import { useState } from "preact/hooks";
import { post } from "../../lib/api";
import { cluster } from "../../lib/cluster";
import { messageOf } from "../../lib/failure";
import { notify } from "../../lib/notices";
import { navigate } from "../../lib/router";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Problem } from "../../ui/Problem";
import { TextArea } from "./forms";
import { parseSettings } from "./config";

export function CreateTopic({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("1");
  const [replicas, setReplicas] = useState("");
  const [config, setConfig] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const settings = parseSettings(config);

  const create = async (event: Event): Promise<void> => {
    event.preventDefault();
    if ("problem" in settings) return;
    setBusy(true);
    setFailure(null);
    try {
      const body = {
        name: name.trim(),
        partitions: numberOf(partitions),
        replicas: numberOf(replicas),
        config: settings.config,
      };
      await post("/v1/topics", body);
      notify(`Topic ${body.name} is created`);
      cluster.refresh();
      onClose();
      navigate("topics", body.name);
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  };

  return (
    <Dialog title="Create a topic" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void create(event)}>
        <Field
          label="Name"
          value={name}
          onValue={setName}
          required
          maxLength={249}
          help="Letters, digits, dots, dashes and underscores."
          data-testid="new-name"
        />
        <div class="field-pair">
          <Field
            label="Partitions"
            type="number"
            min={1}
            max={10_000}
            value={partitions}
            onValue={setPartitions}
            required
            help="Order is kept in each."
            data-testid="new-partitions"
          />
          <Field
            label="Replicas"
            type="number"
            min={1}
            value={replicas}
            onValue={setReplicas}
            placeholder="default"
            help="Not more than brokers."
            data-testid="new-replicas"
          />
        </div>
        <TextArea
          label="Settings"
          value={config}
          onValue={setConfig}
          rows={3}
          placeholder="retention.ms=3600000"
          testid="new-config"
          help="One name=value in each line."
          problem={"problem" in settings ? settings.problem : null}
        />
        {failure !== null && <Problem text={failure} />}
        <footer class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            look="primary"
            busy={isBusy}
            disabled={name.trim() === "" || "problem" in settings}
            data-testid="create-submit"
          >
            Create
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Null lets the broker choose. */
function numberOf(text: string): number | null {
  return text.trim() === "" ? null : Number(text);
}
