"""What goes wrong with a run, in a sentence for the person at the keyboard."""


class RunError(Exception):
    """What happened and what to do. Whatever was recorded before is intact."""
