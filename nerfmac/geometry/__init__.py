"""Geometry: cameras, lenses, rays, samples, grid cells, and color, with one convention for each."""
