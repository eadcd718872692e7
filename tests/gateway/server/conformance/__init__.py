"""Bytes that clients send and the answers they get: `framing`, `heads`, `targets` and `corners` hold the cases,
`differences` what nginx and Hypercorn answer where they answer otherwise, by reason."""
