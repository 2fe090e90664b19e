"""Samples to pixels: shading, whole pictures, and how good they are."""
