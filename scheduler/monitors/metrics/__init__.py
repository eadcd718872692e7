"""The numbers that a monitor tracks, and the rules on them."""
