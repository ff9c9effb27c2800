// Around every chart: its title, what it says in a sentence, and its numbers as a table for those who want it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Table, type Column } from "../../ui/Table";

const WIDTH_FIRST = 640;

interface Props {
  title: string;
  summary: string;
  testid: string;
  /** Of the table. */
  columns: readonly (string | Column)[];
  rows: readonly (readonly string[])[];
  height: number;
  legend?: ComponentChildren;
  /** The inside of the SVG, for a width in pixels. */
  children: (width: number) => ComponentChildren;
}

export function ChartFrame({ title, summary, testid, columns, rows, height, legend, children }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  return (
    <figure class="chart" data-testid={testid}>
      <figcaption>
        <h3>{title}</h3>
        <p class="muted">{summary}</p>
      </figcaption>
      {legend}
      {/* As wide as there is room, so that letters keep their size. */}
      <div ref={frame} class="chart-frame">
        <svg
          role="img"
          aria-label={`${title}. ${summary}`}
          viewBox={`0 0 ${width} ${height}`}
          width={width}
          height={height}
        >
          {children(width)}
        </svg>
      </div>
      <details>
        <summary>Numbers of this chart</summary>
        <Table caption={title} columns={columns}>
          {rows.map(([first = "", ...others]) => (
            <tr key={first}>
              <th scope="row">{first}</th>
              {others.map((text, index) => (
                <td key={index} class="numeric">
                  {text}
                </td>
              ))}
            </tr>
          ))}
        </Table>
      </details>
    </figure>
  );
}

function useWidth(element: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(WIDTH_FIRST);
  useEffect(() => {
    if (element.current === null) return;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined && entry.contentRect.width > 0) setWidth(Math.floor(entry.contentRect.width));
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
}
