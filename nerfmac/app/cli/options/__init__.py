"""Arguments of each command, in a module of the command's name.

These modules import neither MLX nor NumPy, so that help pages appear at once.
"""
