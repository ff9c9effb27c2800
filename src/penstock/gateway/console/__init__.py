"""The web console: its files as they were built, and what only it asks for."""
