"""The numbers that a monitor tracks, and the alert rules on them."""
