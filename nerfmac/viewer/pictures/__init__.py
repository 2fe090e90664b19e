"""What a picture of the viewer shows: its modes, and a photograph to compare it with."""
