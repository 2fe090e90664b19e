"""Arguments of the commands, with one module per command.

These modules import neither MLX nor NumPy, so that help pages appear immediately.
"""
