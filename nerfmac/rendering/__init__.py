"""Samples to pixels: shading, whole pictures, and the quality of pictures."""
