// All pages, in the order of the navigation.

import { ClusterPage } from "./pages/cluster";
import { FlightsPage } from "./pages/flights";
import { GroupsPage } from "./pages/groups";
import { OverviewPage } from "./pages/overview";
import { SettingsPage } from "./pages/settings";
import { TopicsPage } from "./pages/topics";
import type { IconName } from "./ui/Icon";
import { lazyPage, type PageComponent } from "./ui/LazyPage";

export interface PageEntry {
  name: string;
  title: string;
  icon: IconName;
  component: PageComponent;
}

export const PAGES: readonly PageEntry[] = [
  { name: "overview", title: "Overview", icon: "overview", component: OverviewPage },
  {
    name: "traffic",
    title: "Traffic",
    icon: "traffic",
    // It brings the map, which is larger than all the rest.
    component: lazyPage(async () => (await import("./pages/traffic")).TrafficPage),
  },
  { name: "cluster", title: "Cluster", icon: "cluster", component: ClusterPage },
  { name: "topics", title: "Topics", icon: "topics", component: TopicsPage },
  { name: "groups", title: "Groups", icon: "groups", component: GroupsPage },
  { name: "flights", title: "Flights", icon: "flights", component: FlightsPage },
  { name: "settings", title: "Settings", icon: "settings", component: SettingsPage },
];

export const HOME = "overview";
