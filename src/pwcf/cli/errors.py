"""What a command says when it cannot do what is asked."""


class CommandError(Exception):
    """Wrong input, in a sentence for the person at the keyboard; exit code 2."""
