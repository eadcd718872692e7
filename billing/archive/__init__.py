"""The archive: compressed files with whole days of the journal, and the sums that replace their rows in the store."""
