"""Parts of ``perceptual.py``: questions in perceptual distances, each part a table.

Every measurement is a file of its own in the results' folder, so that a run goes on where it was stopped.
"""
