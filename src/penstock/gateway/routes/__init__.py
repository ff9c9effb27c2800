"""The gateway's endpoints about topics, groups, messages and the cluster."""
