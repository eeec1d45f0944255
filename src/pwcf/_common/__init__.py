"""Helpers that every room may use; they know nothing of models, metrics or attacks."""
