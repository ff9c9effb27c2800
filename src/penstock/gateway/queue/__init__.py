"""The topic queue: producers and consumers that register, and get ids and messages over HTTP.

Gateways keep nothing for themselves. Ids and positions are logs in the cluster (internal topics), which every
gateway reads as far as it needs; what a record in them means is decided by the records before it and by
nothing else. So any number of gateways serve the same queues, and each can be killed at any moment.
"""
