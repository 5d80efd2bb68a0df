"""From what a tenant's memory holds to a fingerprint, and from a fingerprint to what an import says (HMX-F). Pure."""
