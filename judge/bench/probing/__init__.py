"""The doctor's child: tries the sandbox from inside."""
