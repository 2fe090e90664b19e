"""Differentiable operations: each with a plain MLX reference and, where it pays, kernels.

Every module holds a public function that checks its arguments, the reference that defines the
operation, and the kernel's launch with its gradients. `nerfmac.backend.runs_kernel` decides whether
the kernel or the reference runs.

Kernels and references have the same dtypes, so any subset of the operations may run as references.
Features, tables and activations may come in float32 or in `nerfmac.backend.working_dtype()`.
Kernels get them in the latter, and results are in the latter. All other floats are float32.
"""
