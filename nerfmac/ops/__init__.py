"""Differentiable operations: each with a plain MLX reference and, where it pays, kernels.

Every module holds a public function that checks and dispatches, the reference that defines it, and
the kernel's launch with its gradients. `nerfmac.backend.runs_kernel` decides which of the two runs.

The dtypes are the same either way, so any subset of the operations may run as references: features,
tables and activations are taken in float32 or in `nerfmac.backend.working_dtype()`, cast to the
latter for the kernel, and given in the latter; all else is float32.
"""
