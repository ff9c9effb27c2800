"""The Flights service as its clients know it: topics, the records on them, chunks of files, states of jobs.

The other side, the application on Spark that answers, is `penstock.pipelines.flights.service`.
"""
