"""Radiance fields: a density and a color for each position and direction of view."""
