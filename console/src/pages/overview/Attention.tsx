// What is not as it should be; nothing when all is well.

import { href } from "../../lib/router";
import type { ClusterState } from "../../lib/types";
import { Icon } from "../../ui/Icon";
import { problemsOf } from "./problems";

export function Attention({ state }: { state: ClusterState }) {
  const problems = problemsOf(state);
  if (problems.length === 0) return null;
  return (
    <section class="attention" aria-label="Needs attention" data-testid="attention">
      <Icon name="warning" size={20} />
      <ul>
        {problems.map((problem) => (
          <li key={problem}>{problem}</li>
        ))}
      </ul>
      <a href={href("cluster")}>Look at the cluster</a>
    </section>
  );
}
