"""Deliveries of runs: what is sent, how it is signed, when it is tried again, and one attempt over the network."""
