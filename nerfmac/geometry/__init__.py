"""Cameras, lenses, rays, samples, cells and colour, with one convention for each."""
