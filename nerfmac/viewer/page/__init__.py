"""The page that the widget shows, and what joins its modules into one."""
