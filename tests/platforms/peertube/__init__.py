"""PeerTube."""
