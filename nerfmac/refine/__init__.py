"""What is learned of the training views beside the field: poses, lenses, exposures, colours."""
