import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./Icon";

type Props = Omit<JSX.ButtonHTMLAttributes<HTMLButtonElement>, "icon"> & {
  children?: ComponentChildren;
  icon?: IconName;
  /** `primary` for what most people came for, `danger` for what can not be undone, `quiet` beside others. */
  look?: "plain" | "primary" | "danger" | "quiet";
  small?: boolean;
  /** While it works it can not be pressed again. */
  busy?: boolean;
};

export function Button({ children, icon, look = "plain", small = false, busy = false, ...rest }: Props) {
  return (
    <button
      type="button"
      {...rest}
      class={`button button-${look} ${small ? "button-small" : ""}`}
      disabled={rest.disabled === true || busy}
      aria-busy={busy}
    >
      {icon !== undefined && <Icon name={icon} size={small ? 15 : 17} />}
      {children}
    </button>
  );
}
