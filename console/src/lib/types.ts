// What the gateway answers. Field names are those on the wire.

export interface Broker {
  id: number;
  host: string;
  port: number;
  /** Null where only the Kafka protocol tells of the cluster. */
  pid: number | null;
  /** `running`, `starting`, `paused`, `fenced` or `down`. */
  state: string;
  roles: string[];
}

/** A dedicated controller, or a service such as the gateway, the supervisor or Flights. */
export interface OtherNode {
  id: number | string;
  pid: number | null;
  /** As of a broker; `late` is one whose heartbeat is overdue. */
  state: string;
  roles: string[];
  /** When it was last heard of, of services that tell. */
  heartbeat_ms?: number;
}

export interface Partition {
  partition: number;
  leader: number | null;
  leader_epoch: number;
  replicas: number[];
  isr: number[];
  high_watermark: number | null;
}

export interface Topic {
  name: string;
  partitions: Partition[];
}

/** `GET /v1/cluster`. */
export interface ClusterState {
  cluster_id: string | null;
  controller: number | null;
  brokers: Broker[];
  topics: Topic[];
  nodes?: OtherNode[];
}

/** An event of `GET /v1/cluster/events`. */
export interface ClusterEvent {
  source?: string;
  offset: number;
  timestamp_ms: number;
  kind: string;
  text: string;
  cause?: string;
  epoch?: number;
  topic?: string;
  partition?: number;
  nodes: number[];
}

export interface GroupPartition {
  topic: string;
  partition: number;
  committed: number | null;
  end: number | null;
  lag: number | null;
  member: string | null;
}

export interface GroupMember {
  [field: string]: string | null | undefined;
}

export interface Group {
  group: string;
  state: string;
  assignor: string | null;
  members: GroupMember[];
  lag: number;
  partitions: GroupPartition[];
}

/** `GET /v1/groups`. */
export interface Groups {
  groups: Group[];
}

/** `GET /v1/console`: what this gateway offers. */
export interface ConsoleInfo {
  version: string;
  cluster_id: string | null;
  /** Whether processes of the cluster run on the gateway's machine, so that signals can reach them. */
  local: boolean;
  /** Whether there is a heat map. */
  traffic: boolean;
  /** Whether requests need a token. */
  auth: boolean;
}

export interface Done {
  status: string;
  message: string;
}
