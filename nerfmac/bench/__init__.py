"""Measurements: what a machine does in what time, alone and beside PyTorch."""
