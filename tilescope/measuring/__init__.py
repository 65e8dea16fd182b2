"""How fast is it, on a GPU?"""
