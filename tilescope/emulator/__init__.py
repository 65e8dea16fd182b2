"""What does a kernel compute, with no GPU?"""
