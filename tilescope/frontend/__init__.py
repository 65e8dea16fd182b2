"""Which kernel is meant, and what does TileLang make of it?"""
