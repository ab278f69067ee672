"""The marks by which a text in an envelope of a codec is recognised."""

PREFIX = "asyncq:1:"
# The start of an encoded payload or result. As a text it is compared in 50 ns.
MARK = f'"{PREFIX}'
