import { useState } from "preact/hooks";
import { notifyFailure } from "../lib/notices";
import { Button } from "./Button";

const COPIED_MS = 1_500;

/** A command to type, and a button that spares it. */
export function Command({ children }: { children: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(children);
      setCopied(true);
      setTimeout(() => setCopied(false), COPIED_MS);
    } catch (error) {
      notifyFailure(error); // no clipboard without https, but for this machine
    }
  };
  return (
    <div class="command">
      <code>{children}</code>
      <Button
        look="quiet"
        small
        icon={isCopied ? "check" : "copy"}
        aria-label={`Copy: ${children}`}
        onClick={() => void copy()}
      />
    </div>
  );
}
