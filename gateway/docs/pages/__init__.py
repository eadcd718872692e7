"""The pages for people, and the same as Markdown for programs that read."""
