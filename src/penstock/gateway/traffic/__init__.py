"""Traffic over HTTP: positions come in, the heat map goes out.

Nothing here runs before the first request about traffic. From then on the gateway follows three topics: the
heat map, which it holds in memory and hands out whole and as it changes; the contributions, from which it
knows who may read; and the map of the city.
"""
