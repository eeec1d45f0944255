"""What a person at the keyboard can mend, said in one sentence."""


class UserError(Exception):
    """Base of the errors whose message is all there is to say: commands print it without a traceback."""
