"""What is asked of the pipeline, the same for the command line and over HTTP: a context pack, its status."""
