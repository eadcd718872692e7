"""Windows, leases, breakers, governors and retry budgets (floor 1)."""
