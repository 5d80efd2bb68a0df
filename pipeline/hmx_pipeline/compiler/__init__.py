"""The compiler: contributions of segments become artifacts and knowledge records (HMX-A). Deterministic, pure."""
