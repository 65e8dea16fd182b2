"""What does a kernel's code touch and cost?"""
