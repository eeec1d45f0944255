"""The structured method: the linearised problem solved exactly, again and again."""
