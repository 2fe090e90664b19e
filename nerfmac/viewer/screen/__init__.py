"""The page's picture area: which picture it gets next, how large, and as which bytes."""
