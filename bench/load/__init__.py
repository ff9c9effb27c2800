"""Load generators: `python -m bench.load.NAME ARGS` takes one JSON object and prints one."""
