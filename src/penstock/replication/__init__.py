"""How copies of a log stay equal: the leader's view of its followers, and where two logs part. Pure."""
