"""The admin address: who may ask there, how a node and a command prove themselves, and what is answered."""
