"""A package, so that its tests share one browser: only in packages do fixtures have that scope."""
