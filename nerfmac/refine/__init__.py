"""Refinement of the training views together with the field: poses, lenses, exposures, and
colors."""
