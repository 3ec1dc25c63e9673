"""The distributions of a random factor, one family a file."""
