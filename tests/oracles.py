"""Slow, literal numpy versions of the core's rules, written from the papers and specifications.

They share no code with what they check: plain loops, one rule a line. No TensorFlow here.
"""
