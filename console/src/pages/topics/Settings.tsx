// The settings of a topic, each with where its value comes from, and a way to change it.

import { useState } from "preact/hooks";
import { patch } from "../../lib/api";
import { messageOf } from "../../lib/failure";
import { notify } from "../../lib/notices";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Card } from "../../ui/Page";
import { Problem } from "../../ui/Problem";
import { Table } from "../../ui/Table";
import type { TopicDetails } from "./TopicDetail";
import { topicPath } from "./message_log";
import { humanValue, isOwn, sortSettings, type NamedSetting } from "./config";

export function Settings({ topic, onChanged }: { topic: TopicDetails; onChanged: () => void }) {
  const [edited, setEdited] = useState<string | null>(null);
  const settings = sortSettings(topic.config);
  const own = settings.filter(isOwn).length;
  return (
    <Card
      title="Settings"
      aside={<span class="muted">{own === 0 ? "all are defaults" : `${own} changed`}</span>}
      testid="topic-settings"
    >
      <Table
        caption={`Settings of ${topic.name}`}
        columns={["Name", "Value", { name: "From", optional: true }, ""]}
      >
        {settings.map((setting) =>
          setting.name === edited ? (
            <Editor
              key={setting.name}
              topic={topic.name}
              setting={setting}
              onClose={() => setEdited(null)}
              onChanged={onChanged}
            />
          ) : (
            <Row key={setting.name} setting={setting} onEdit={() => setEdited(setting.name)} />
          ),
        )}
      </Table>
    </Card>
  );
}

function Row({ setting, onEdit }: { setting: NamedSetting; onEdit: () => void }) {
  const human = humanValue(setting.name, setting.value);
  return (
    <tr data-testid={`setting-${setting.name}`}>
      <th scope="row" class="setting-name">
        {setting.name}
      </th>
      <td class="setting-value">
        {setting.sensitive ? <span class="muted">hidden</span> : <code>{setting.value ?? "–"}</code>}
        {human !== null && <span class="muted"> {human}</span>}
      </td>
      <td class="optional">
        <Origin setting={setting} />
      </td>
      <td class="numeric">
        {!setting.read_only && (
          <Button look="quiet" small aria-label={`Change ${setting.name}`} onClick={onEdit}>
            Change
          </Button>
        )}
      </td>
    </tr>
  );
}

function Origin({ setting }: { setting: NamedSetting }) {
  if (isOwn(setting)) return <span class="badge badge-accent">this topic</span>;
  return <Badge>{setting.source.includes("broker") ? "broker" : "default"}</Badge>;
}

interface EditorProps {
  topic: string;
  setting: NamedSetting;
  onClose: () => void;
  onChanged: () => void;
}

function Editor({ topic, setting, onClose, onChanged }: EditorProps) {
  const [value, setValue] = useState(setting.value ?? "");
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const inputId = `edit-${setting.name}`;
  const save = async (next: string | null): Promise<void> => {
    setBusy(true);
    setFailure(null);
    try {
      await patch(topicPath(topic), { config: { [setting.name]: next } });
      notify(next === null ? `${setting.name} is the default again` : `${setting.name} is ${next}`);
      onChanged();
      onClose();
    } catch (error) {
      setFailure(messageOf(error));
      setBusy(false);
    }
  };
  return (
    <tr class="setting-editor">
      <th scope="row" class="setting-name">
        <label for={inputId}>{setting.name}</label>
      </th>
      <td colSpan={3}>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            void save(value);
          }}
          onKeyDown={(event) => {
            if (event.key === "Escape") onClose();
          }}
        >
          <input
            id={inputId}
            value={value}
            autofocus
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setValue(event.currentTarget.value)}
            ref={focusOnce}
          />
          <Button type="submit" small look="primary" busy={isBusy}>
            Save
          </Button>
          {isOwn(setting) && (
            <Button small busy={isBusy} onClick={() => void save(null)}>
              Back to the default
            </Button>
          )}
          <Button small look="quiet" onClick={onClose}>
            Cancel
          </Button>
        </form>
        {failure !== null && <Problem text={failure} />}
      </td>
    </tr>
  );
}

/** The row was opened by a button that is gone now: without this the focus would be lost. */
function focusOnce(input: HTMLInputElement | null): void {
  if (input !== null && input.dataset["focused"] === undefined) {
    input.dataset["focused"] = "";
    input.focus();
  }
}
