"""The archive: whole days of the journal in compressed files, and the sums that the store keeps for them."""
