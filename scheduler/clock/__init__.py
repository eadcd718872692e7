"""Decides when something is due: cadences, cron and catching up, by one clock for all nodes of a store."""
