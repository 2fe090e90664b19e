"""The page that the widget shows, and the function that joins its JavaScript modules into one."""
