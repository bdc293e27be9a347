"""One module a library; each function clusters rows and gives an `Outcome`."""
