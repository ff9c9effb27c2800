// "Are you sure?", as a promise: `if (await confirm({…})) …`.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Button } from "./Button";
import { Dialog } from "./Dialog";

export interface Question {
  title: string;
  body: ComponentChildren;
  /** On the button that does it. */
  action: string;
  danger?: boolean;
}

const asked = signal<(Question & { answer: (yes: boolean) => void }) | null>(null);

export function confirm(question: Question): Promise<boolean> {
  asked.peek()?.answer(false);
  return new Promise((resolve) => {
    asked.value = {
      ...question,
      answer: (yes) => {
        asked.value = null;
        resolve(yes);
      },
    };
  });
}

/** Where the question appears; once in the page. */
export function ConfirmHost() {
  const question = asked.value;
  if (question === null) return null;
  return (
    <Dialog
      key={question.title}
      title={question.title}
      onClose={() => question.answer(false)}
      actions={
        <>
          <Button autofocus onClick={() => question.answer(false)}>
            Cancel
          </Button>
          <Button
            look={question.danger === true ? "danger" : "primary"}
            data-testid="confirm"
            onClick={() => question.answer(true)}
          >
            {question.action}
          </Button>
        </>
      }
    >
      <p>{question.body}</p>
    </Dialog>
  );
}
