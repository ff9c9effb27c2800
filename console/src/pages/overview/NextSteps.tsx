import { consoleInfo } from "../../lib/console_info";
import { href } from "../../lib/router";
import { Icon, type IconName } from "../../ui/Icon";

export function NextSteps() {
  const info = consoleInfo.state.value.data;
  return (
    <nav class="next-steps" aria-label="Where to go next">
      <Step
        to="traffic"
        icon="traffic"
        title="Watch the traffic"
        text={
          info?.traffic === true
            ? "Cars light up a city on a live map, computed by Spark."
            : "A live map of simulated cars. Start it with penstock demo."
        }
      />
      <Step
        to="cluster"
        icon="bolt"
        title={info?.local === true ? "Break something" : "Look at the cluster"}
        text={
          info?.local === true
            ? "Kill a leader and watch the election: nothing is lost."
            : "Leaders, in-sync replicas and elections, as they happen."
        }
      />
      <Step
        to="topics"
        icon="topics"
        title="Look into topics"
        text="Create and configure them, browse messages, write some."
      />
      <Step
        to="flights"
        icon="flights"
        title="Ask about flights"
        text="Upload itineraries; Spark answers four questions while they arrive."
      />
      <Step
        to="groups"
        icon="groups"
        title="See who keeps up"
        text="Consumer groups, their members and their lag."
      />
    </nav>
  );
}

function Step({ to, icon, title, text }: { to: string; icon: IconName; title: string; text: string }) {
  return (
    <a class="card step" href={href(to)}>
      <Icon name={icon} size={20} />
      <span>
        <strong>{title}</strong>
        <small class="muted">{text}</small>
      </span>
    </a>
  );
}
