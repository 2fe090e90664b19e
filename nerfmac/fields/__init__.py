"""Radiance fields: density and color for each position and viewing direction."""
