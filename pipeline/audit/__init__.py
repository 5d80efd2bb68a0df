"""Whether the laws held: conservation recomputed from the topics alone."""
