"""The rules across fields, by what they are about."""
