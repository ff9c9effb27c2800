"""Connections from a node to the other nodes of its cluster."""
