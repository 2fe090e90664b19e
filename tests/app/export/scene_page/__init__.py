"""A package, so that its fixtures can have the scope of this folder."""
