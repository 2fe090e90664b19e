"""Measurements of `nerfmac profile`: training step time by kernel."""
