import { Icon } from "./Icon";

/** What the gateway says about what was sent to it; read out at once. */
export function Problem({ text }: { text: string }) {
  return (
    <p class="form-problem" role="alert" data-testid="form-problem">
      <Icon name="warning" /> <span>{text}</span>
    </p>
  );
}
