"""Named consumers: their positions and acknowledgements."""
