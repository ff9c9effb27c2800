// Pieces of forms that only these pages need.

import { useId } from "preact/hooks";

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
