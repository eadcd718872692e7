"""The past of a monitor: lists, series, charts and exports."""
