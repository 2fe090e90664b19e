"""Operations with a reference implementation in plain MLX, and kernels where they are faster.

Each operation's module contains a public function that checks the arguments, the reference that
defines the operation, and functions that launch the kernel and its gradient kernel. The decorator
`operation` combines the kernel and the reference. If `runs_kernel` returns True for an operation's
name, the operation runs its kernel. Otherwise, the operation runs its reference.

Kernels and references use the same dtypes, so each operation can be replaced by its reference
independently of the other operations. Features, tables, and activations may be float32 or
`nerfmac.backend.working_dtype()`. Kernels convert these arrays to the working dtype and return
features and their gradients in the working dtype. All other floating-point arrays are float32.
"""
