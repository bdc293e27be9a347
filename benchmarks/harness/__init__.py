"""What `engines.py` and `gpu.py` share."""
