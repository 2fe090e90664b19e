"""`nerfmac tune`: which variant of each operation is quickest here: measured, checked, kept."""
