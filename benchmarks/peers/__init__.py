"""Adapters that run peer solvers as published, without editing their installed files."""
