// A labelled input, with help and what is wrong with it.

import type { JSX } from "preact";
import { useId } from "preact/hooks";

type Props = Omit<JSX.InputHTMLAttributes<HTMLInputElement>, "onInput" | "value" | "label"> & {
  label: string;
  value: string;
  onValue: (value: string) => void;
  help?: string;
  problem?: string | null;
};

export function Field({ label, value, onValue, help, problem = null, ...rest }: Props) {
  const id = useId();
  const noteId = `${id}-note`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        autocomplete="off"
        spellcheck={false}
        {...rest}
        id={id}
        value={value}
        aria-invalid={problem !== null}
        aria-describedby={noteId}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
      <p id={noteId} class={problem !== null ? "field-problem" : "field-help"}>
        {problem ?? help}
      </p>
    </div>
  );
}
