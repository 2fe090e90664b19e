"""Samples to pixels: shading, whole images, and the quality of images."""
