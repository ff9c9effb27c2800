"""Flights jobs over HTTP: files come in as numbered chunks, states and rows of answers go out.

The gateway keeps nothing. A chunk that is acknowledged is on all in-sync replicas of its topic; what has
become of it is told by the service on `flights.jobs`, which the gateway follows together with the requests
for jobs, from the first request about flights on. Between the two lies what the gateway itself has written
and the service has not told of yet. That is remembered to answer which message is next, and to slow down who
sends faster than the service takes. A gateway that restarts forgets it, says a smaller number, and gets some
messages again, which count once. The same holds for two gateways at once.
"""
