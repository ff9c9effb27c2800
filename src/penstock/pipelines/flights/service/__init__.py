"""Flights as a service: many jobs at once, out of the log and into the log."""
