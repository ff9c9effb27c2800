// What a page shows instead of data: it loads, there is none, it failed. And data that has grown old.

import type { ComponentChildren } from "preact";
import { messageOf, needsToken } from "../lib/failure";
import type { Resource } from "../lib/poll";
import { href } from "../lib/router";
import { Button } from "./Button";
import { Icon, type IconName } from "./Icon";

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div class="state" role="status" data-testid="state-loading">
      <span class="spinner" aria-hidden="true" />
      <p>{what}…</p>
    </div>
  );
}

interface EmptyProps {
  title: string;
  icon?: IconName;
  children?: ComponentChildren;
}

export function Empty({ title, icon, children }: EmptyProps) {
  return (
    <div class="state" data-testid="state-empty">
      {icon !== undefined && <Icon name={icon} size={32} />}
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function ErrorState({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  return (
    <div class="state state-bad" role="alert" data-testid="state-error">
      <Icon name="warning" size={32} />
      <h2>That did not work</h2>
      <p class="message">{messageOf(error)}</p>
      {needsToken(error) && (
        <p>
          <a href={href("settings")}>Enter a token in the settings</a>
        </p>
      )}
      {retry !== undefined && (
        <Button icon="refresh" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

interface ResourceViewProps<T> {
  resource: Resource<T>;
  /** "Loading …". */
  what?: string;
  retry?: () => void;
  children: (data: T) => ComponentChildren;
}

/** The answer, however old; greyed when it may not be true any more. */
export function ResourceView<T>({ resource, what, retry, children }: ResourceViewProps<T>) {
  if (resource.data !== null) {
    const isStale = resource.failure !== null;
    return (
      <div class={isStale ? "stale" : ""} data-stale={isStale}>
        {children(resource.data)}
      </div>
    );
  }
  if (resource.failure !== null) return <ErrorState error={resource.failure} retry={retry} />;
  return <Loading {...(what === undefined ? {} : { what })} />;
}
