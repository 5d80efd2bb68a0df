"""The command line `hmx`. Begin with `app.py`."""
