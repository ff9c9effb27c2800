// Tables that say what they are, and that scroll by themselves where the page is narrow.

import type { ComponentChildren } from "preact";

export interface Column {
  name: string;
  /** Numbers stand at the right. */
  numeric?: boolean;
  /** Less important ones go first when there is no room. */
  optional?: boolean;
}

interface Props {
  caption: string;
  /** Whether the caption is for screen readers only, where a heading says the same. */
  quiet?: boolean;
  columns: readonly (string | Column)[];
  children: ComponentChildren;
}

/** `children` are rows whose first cell is `<th scope="row">`. */
export function Table({ caption, quiet = true, columns, children }: Props) {
  return (
    // Focusable, so that arrow keys scroll it.
    <div class="table-scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class={quiet ? "visually-hidden" : ""}>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={typeof column === "string" ? column : column.name} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

function Head({ column }: { column: string | Column }) {
  const { name, numeric = false, optional = false } = typeof column === "string" ? { name: column } : column;
  if (name === "") return <td />; // over buttons, which name themselves
  return (
    <th scope="col" class={`${numeric ? "numeric" : ""} ${optional ? "optional" : ""}`}>
      {name}
    </th>
  );
}
