"""The set-up script behind the README's two commands, and development helpers."""
