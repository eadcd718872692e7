"""The OpenAPI 3.1 document of a node."""
