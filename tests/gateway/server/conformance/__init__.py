"""Bytes that clients send and the responses to them: `framing`, `heads`, `targets` and `corners` hold the cases,
`differences` what nginx and Hypercorn answer where they answer otherwise, by reason."""
