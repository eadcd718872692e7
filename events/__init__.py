"""The account's log of events and its named consumers (floor 3)."""
