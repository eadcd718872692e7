"""The other engine: Hypercorn's protocols on this server's edge."""
