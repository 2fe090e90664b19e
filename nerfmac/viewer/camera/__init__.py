"""The viewer's camera: where it stands, the path through its keyframes, and a film along it."""
