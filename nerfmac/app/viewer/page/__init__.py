"""JavaScript modules and style sheet of the widget's page."""
