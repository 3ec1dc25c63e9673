"""What could be done about a loss, each by evaluating the changed scenario."""
