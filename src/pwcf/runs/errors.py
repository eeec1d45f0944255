"""What goes wrong with a run, in a sentence for the person at the keyboard."""

from pwcf._common.errors import UserError


class RunError(UserError):
    """What happened and what to do. Whatever was recorded before is intact."""
