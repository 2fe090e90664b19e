"""Joint optimization of the field with the training views' poses, lenses, exposures, and colors."""
