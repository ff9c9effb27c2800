"""Penstock side by side with its peers: every figure is a ratio within one run on one machine.

`measure` holds one module per question, `peers` one module per server, `load` the load generators, each of
which runs as a process of its own so that a server never shares an interpreter with its client.
"""
