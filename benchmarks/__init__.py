"""Measures the service beside its peers: same machine, same client, same model, one run."""
