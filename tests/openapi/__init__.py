"""The OpenAPI document as clients use it: Schemathesis tests a node with it, and generators build clients from it."""
