"""What a command says when it cannot do what is asked."""

from pwcf._common.errors import UserError


class CommandError(UserError):
    """Wrong input, in a sentence for the person at the keyboard; exit code 2."""
