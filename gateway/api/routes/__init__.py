"""The API's routes, one module an area."""
