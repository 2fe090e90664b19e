"""Radiance fields: a density and a colour for each position and direction of view."""
