"""Reading pages, as worker processes do it: HTML, PDF, feeds and text become Markdown, text, links and metadata."""
