"""Differentiable operations: each with a plain MLX reference and, where it pays, kernels.

Every module holds a public function that checks and dispatches, the reference that defines it, and
the kernel's launch with its gradients. `nerfmac.backend.runs_kernel` decides which of the two runs.
"""
