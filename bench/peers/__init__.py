"""The servers that are measured, each started with a fresh folder on free ports of the loopback."""
