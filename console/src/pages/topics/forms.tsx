// Pieces of forms that only these pages need.

import { useId } from "preact/hooks";
import { Icon } from "../../ui/Icon";

/** What the gateway says about what was sent to it; read out at once. */
export function Problem({ text }: { text: string }) {
  return (
    <p class="form-problem" role="alert" data-testid="form-problem">
      <Icon name="warning" /> <span>{text}</span>
    </p>
  );
}

interface TextAreaProps {
  label: string;
  value: string;
  onValue: (value: string) => void;
  rows?: number;
  placeholder?: string;
  help?: string;
  problem?: string | null;
  testid?: string;
}

export function TextArea({
  label,
  value,
  onValue,
  rows = 3,
  placeholder,
  help,
  problem = null,
  testid,
}: TextAreaProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        placeholder={placeholder}
        spellcheck={false}
        data-testid={testid}
        aria-invalid={problem !== null}
        aria-describedby={`${id}-note`}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
      <p id={`${id}-note`} class={problem !== null ? "field-problem" : "field-help"}>
        {problem ?? help}
      </p>
    </div>
  );
}
