"""Cameras, lenses, rays, samples, cells and color, with one convention for each."""
