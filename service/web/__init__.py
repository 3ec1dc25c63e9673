"""HTML pages over the API: the server writes a page and its words, modules show what it answers."""
