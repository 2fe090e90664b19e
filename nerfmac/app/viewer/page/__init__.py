"""The page that the widget shows, and a function that bundles its JavaScript modules."""
