"""The command line `hmx`; start reading at `app.py`."""
