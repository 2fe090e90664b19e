"""Refinement of training views, learned with the field: poses, lenses, exposures, colors."""
