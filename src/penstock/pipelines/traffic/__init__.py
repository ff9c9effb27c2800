"""The heat map on Spark: positions of cars in, counts of cells and windows out."""
