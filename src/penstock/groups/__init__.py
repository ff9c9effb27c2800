"""Consumer groups: who is a member, who is assigned what, how far each group has read.

A pure core: requests and the time go in, effects (answers, records to write, the next deadline) come out.
`shard` is the entrance: all groups whose records live in one partition of `__consumer_offsets`.
"""
