import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

interface PageProps {
  /** For `data-testid`: `page-<name>`. */
  name: string;
  title: string;
  /** One line about what this is. */
  lead?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

export function Page({ name, title, lead, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Penstock`;
  }, [title]);
  return (
    <div class="page" data-testid={`page-${name}`}>
      <header class="page-head">
        <div>
          <h1>{title}</h1>
          {lead !== undefined && <p class="lead">{lead}</p>}
        </div>
        {actions !== undefined && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface CardProps {
  title?: string;
  /** At the right of the title. */
  aside?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
  testid?: string;
}

export function Card({ title, aside, children, class: extra = "", testid }: CardProps) {
  return (
    <section class={`card ${extra}`} data-testid={testid}>
      {title !== undefined && (
        <header class="card-head">
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}
