"""The same method in PyTorch as a baseline for nerfmac, written as a researcher would write it
today.

It uses plain PyTorch operations and `torch.compile` where it pays off, but no custom extensions. It
has nerfmac's configuration, geometry, initial values, and recipe, so only the implementation
differs. nerfmac does not depend on PyTorch: `torch_peer.compare` can be imported without it, and
then raises an error with one sentence. `python scripts/compare_torch.py` runs the comparison.
"""
