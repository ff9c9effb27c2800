import { useState } from "preact/hooks";
import { remove } from "../../lib/api";
import { cluster } from "../../lib/cluster";
import { messageOf } from "../../lib/failure";
import { notify } from "../../lib/notices";
import { navigate } from "../../lib/router";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Problem } from "../../ui/Problem";
import { topicPath } from "./message_log";

/** Deleting takes all messages along, so its name has to be typed: one click is too easily done. */
export function DeleteTopic({ name, onClose }: { name: string; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isSame = typed === name;
  const doIt = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!isSame) return;
    setBusy(true);
    setFailure(null);
    try {
      await remove(topicPath(name));
      notify(`Topic ${name} is deleted`);
      cluster.refresh();
      onClose();
      navigate("topics");
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Delete ${name}?`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void doIt(event)}>
        <p>All its messages are deleted with it, on every broker. This can not be undone.</p>
        <Field label={`Type ${name} to confirm`} value={typed} onValue={setTyped} data-testid="delete-name" />
        {failure !== null && <Problem text={failure} />}
        <footer class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            look="danger"
            icon="trash"
            busy={isBusy}
            disabled={!isSame}
            data-testid="delete-submit"
          >
            Delete the topic
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
