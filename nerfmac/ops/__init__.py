"""Differentiable operations: each with a plain MLX reference and, where it pays, kernels.

An operation's module holds a public function that checks its arguments, the reference that defines
the operation, and the launches of the kernel and its gradients, if it has any.
`nerfmac.backend.runs_kernel` decides whether the kernel or the reference runs.

Kernels and references have the same dtypes, so any subset of the operations may run as references.
Features, tables and activations may come in float32 or in `nerfmac.backend.working_dtype()`.
Kernels get them, and return their results, in the working dtype. All other floats are float32.
"""
