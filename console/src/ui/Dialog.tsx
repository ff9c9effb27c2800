// A question in front of the page. The browser's own <dialog> makes the page behind it inert and closes at
// Escape; Tab goes round inside it, so that the focus does not leave for the browser's own buttons.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./Button";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** Buttons, the least dangerous first. */
  actions?: ComponentChildren;
  wide?: boolean;
}

export function Dialog({ title, onClose, children, actions, wide = false }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // Before the next key: an Escape right after the click is meant for it.
  useLayoutEffect(() => {
    const element = dialog.current;
    const opener = document.activeElement;
    if (element !== null && !element.open) element.showModal();
    return () => {
      element?.close();
      // The opener may be gone: a broker that was killed has other buttons.
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      class={wide ? "dialog dialog-wide" : "dialog"}
      data-testid="dialog"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onKeyDown={(event) => {
        if (event.key === "Tab" && dialog.current !== null) goRound(event, dialog.current);
      }}
      onMouseDown={(event) => {
        if (event.target === dialog.current) onClose(); // beside the dialog
      }}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={titleId}>{title}</h2>
          <Button look="quiet" small icon="close" aria-label="Close" onClick={onClose} />
        </header>
        {children}
        {actions !== undefined && <footer class="dialog-actions">{actions}</footer>}
      </div>
    </dialog>
  );
}

const FOCUSABLE = "a[href], [tabindex='0'], :is(button, input, select, textarea):not(:disabled)";

function goRound(event: KeyboardEvent, dialog: HTMLElement): void {
  const inside = [...dialog.querySelectorAll<HTMLElement>(FOCUSABLE)];
  const [from, to] = event.shiftKey ? [inside.at(0), inside.at(-1)] : [inside.at(-1), inside.at(0)];
  if (document.activeElement !== from) return;
  event.preventDefault();
  to?.focus();
}
