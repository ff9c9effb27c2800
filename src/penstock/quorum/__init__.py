"""Who leads the metadata log, and what of it is committed. Pure: Raft's rules, with followers that fetch."""
