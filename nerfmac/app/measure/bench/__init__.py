"""Measurements of `nerfmac bench`: speed of this machine, and quality over training time."""
