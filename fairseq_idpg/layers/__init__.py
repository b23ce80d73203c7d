"""Small shared maths."""
