"""Simulated cars that make some form of sense, in a city that is drawn for the map.

    plan, river -> network -> routing, congestion, places -> trips -> cars -> fleet -> run
                      |                                                         |
                   streets (GeoJSON)                        faults, broken -----+---- truth

Everything but `run` is pure: no clock, no network, no chance but a random source that is handed in. The
city is the same for everybody; who lives where and when they leave depends on the seed.
"""
