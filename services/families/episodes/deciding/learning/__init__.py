"""What a completed episode teaches: a reward, a reflection, patterns. Pure functions."""
