interface Props {
  /** What goes on, for screen readers. */
  label: string;
  value: number;
  max: number;
  testid?: string;
}

/** How far something is. The text beside it says the same in numbers. */
export function Progress({ label, value, max, testid }: Props) {
  // Nothing to do is done.
  const [shown, most] = max > 0 ? [Math.min(value, max), max] : [1, 1];
  return <progress class="progress" aria-label={label} value={shown} max={most} data-testid={testid} />;
}
