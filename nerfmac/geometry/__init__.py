"""Geometry: cameras, lenses, rays, samples, grid cells, and colors. Each module defines its
conventions."""
