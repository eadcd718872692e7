"""The OpenAPI document as used by clients: Schemathesis tests a node with it, generators build clients from it."""
