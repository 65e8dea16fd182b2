"""What do all chapters share?"""
