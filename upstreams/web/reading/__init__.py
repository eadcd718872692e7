"""Reading pages in worker processes: HTML, PDF, feeds and text become Markdown, text, links and metadata."""
