"""The main job in one terminal: a cluster, cars, the heat map on Spark, a flights job, and the console.

Everything is a process of its own, started by the same commands that a user has. `plan.py` says which there
are, `course.py` decides what is started when and what again, `run.py` does it; `figures.py`, `verdict.py` and
`view.py` are what is shown. `guard.py` ends the processes when the demo itself was killed.
"""
