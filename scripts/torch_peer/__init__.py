"""Implementation of the same method in PyTorch, as a baseline for nerfmac.

The implementation uses plain PyTorch operations, and `torch.compile` where it increases the speed,
but no custom extensions. The configuration, geometry, initial values, and training recipe are the
same as in nerfmac, except for the differences that `torch_peer.peer` lists. nerfmac does not depend
on PyTorch. Without PyTorch, `torch_peer.compare` can be imported but raises an error when it is
used. `python scripts/compare_torch.py` runs the comparison.
"""
