"""`nerfmac bench`: measure the speed of this machine, and the quality over training time."""
