import { useState } from "preact/hooks";
import { messageOf } from "../../lib/failure";
import { count } from "../../lib/format";
import { token } from "../../lib/token";
import { Button } from "../../ui/Button";
import { Field } from "../../ui/Field";
import { Icon } from "../../ui/Icon";
import { Card } from "../../ui/Page";
import { Problem } from "../../ui/Problem";
import type { TopicDetails } from "./TopicDetail";
import { TextArea } from "./forms";
import { produce, type Stored } from "./writing";

export function Produce({ topic, onStored }: { topic: TopicDetails; onStored: () => void }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [partition, setPartition] = useState("");
  const [stored, setStored] = useState<Stored | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const hasToken = token.value !== "";

  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    setStored(null);
    try {
      const chosen = partition === "" ? null : Number(partition);
      setStored(
        await produce(topic.name, { key: key === "" ? null : key, value, partition: chosen }, hasToken),
      );
      onStored();
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <Card title="Write a message" testid="produce">
      <form class="stack" onSubmit={(event) => void send(event)}>
        <div class="field-pair">
          <Field
            label="Key"
            value={key}
            onValue={setKey}
            disabled={hasToken}
            data-testid="produce-key"
            help={
              hasToken
                ? "Not with a token: browsers can not send one there."
                : "The same key goes to the same partition."
            }
          />
          {topic.partitions.length > 1 && (
            <PartitionChoice topic={topic} value={partition} onValue={setPartition} isDisabled={hasToken} />
          )}
        </div>
        <TextArea label="Value" value={value} onValue={setValue} rows={3} testid="produce-value" />
        <div class="row">
          <Button type="submit" look="primary" busy={isBusy} data-testid="produce-submit">
            Write
          </Button>
          <span role="status" data-testid="produce-answer">
            {stored !== null && (
              <>
                <Icon name="check" /> Stored in partition {stored.partition} at offset {count(stored.offset)}
              </>
            )}
          </span>
        </div>
        {failure !== null && <Problem text={failure} />}
      </form>
    </Card>
  );
}

interface ChoiceProps {
  topic: TopicDetails;
  value: string;
  onValue: (value: string) => void;
  isDisabled: boolean;
}

function PartitionChoice({ topic, value, onValue, isDisabled }: ChoiceProps) {
  return (
    <div class="field">
      <label for="produce-partition">Partition</label>
      <select
        id="produce-partition"
        value={value}
        disabled={isDisabled}
        onChange={(event) => onValue(event.currentTarget.value)}
      >
        <option value="">by key</option>
        {topic.partitions.map(({ partition }) => (
          <option key={partition} value={String(partition)}>
            {partition}
          </option>
        ))}
      </select>
    </div>
  );
}
