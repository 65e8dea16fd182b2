"""How is what was found shown?"""
