"""What differs between array libraries: arrays, synchronisation, events, memory, availability with a reason."""
