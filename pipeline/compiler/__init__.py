"""Contributions of segments become artifacts: extraction, mining, confidence, lifecycle (HMX-A)."""
