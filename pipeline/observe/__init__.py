"""What operators see: every metric's name, logs, health, progress."""
