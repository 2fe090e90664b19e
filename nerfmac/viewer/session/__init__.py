"""One viewer without its widget: what a page says to it, and what it does and answers."""
