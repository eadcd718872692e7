"""When work is scheduled: cadences, cron and catching up, with one clock for all nodes of a store."""
