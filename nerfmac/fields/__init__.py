"""Radiance fields: what has a density and a colour at a position, seen along a direction."""
