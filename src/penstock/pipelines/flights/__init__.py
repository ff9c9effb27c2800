"""The Flights optimizer: four questions to a table of itineraries, and a generator of such tables."""
