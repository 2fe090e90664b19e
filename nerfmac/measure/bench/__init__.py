"""`nerfmac bench`: how fast this machine computes, and how fast a model learns on it."""
