// What is missing for a map with heat, and how to start it.

import { Command } from "../../ui/Command";
import { Icon } from "../../ui/Icon";
import { Empty } from "../../ui/states";

export function NoHeatMap({ hasCars }: { hasCars: boolean }) {
  return (
    <Empty title="There is no heat map yet" icon="traffic">
      <p>The city lights up as soon as cars drive and Spark counts them. All of it at once:</p>
      <Command>penstock demo</Command>
      <p>
        {hasCars
          ? "Streets are here already; or only what is missing:"
          : "Or, one after the other, on this cluster:"}
      </p>
      {!hasCars && <Command>penstock traffic simulate</Command>}
      <Command>penstock traffic heatmap</Command>
    </Empty>
  );
}

export function Refused({ message }: { message: string }) {
  return (
    <div class="state state-bad" role="alert" data-testid="state-refused">
      <Icon name="warning" size={32} />
      <h3>Traffic is for those who take part</h3>
      <p class="message">{message}</p>
      <p>
        The console itself may look, with a cookie that this gateway hands out when the page is loaded. Does
        the browser refuse cookies, or does something between it and the gateway? This page goes on asking.
      </p>
    </div>
  );
}
