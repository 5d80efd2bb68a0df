"""Fingerprints (HMX-F): a tenant's memory exported as one document, compared, and imported. Pure."""
