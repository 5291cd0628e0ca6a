"""The command line: every command is a call on the façade and a way to show what it returns."""
