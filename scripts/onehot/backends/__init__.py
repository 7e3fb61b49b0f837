"""What differs between array libraries.

Arrays, synchronisation, events, memory, availability with a reason.
"""
