import { dismiss, notices } from "../lib/notices";
import { Button } from "./Button";
import { Icon } from "./Icon";

/** What was just done, and what failed; read out as it appears. */
export function Notices() {
  return (
    <div class="notices" role="log" aria-live="polite" aria-label="Messages">
      {notices.value.map((notice) => (
        <div key={notice.id} class={`notice notice-${notice.tone}`} data-testid={`notice-${notice.tone}`}>
          <Icon name={notice.tone === "good" ? "check" : "warning"} />
          <span>{notice.text}</span>
          <Button look="quiet" small icon="close" aria-label="Dismiss" onClick={() => dismiss(notice.id)} />
        </div>
      ))}
    </div>
  );
}
