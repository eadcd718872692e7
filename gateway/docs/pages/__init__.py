"""The docs pages for people, and their Markdown versions for programs."""
