"""The one exception that is the user's to mend."""


class UserError(Exception):
    """A mistake in a flag, a file or a value.

    Its text is a single line that names the flag, file or value. A command prints it on stderr
    and exits with code 1; it never shows as a traceback.
    """
