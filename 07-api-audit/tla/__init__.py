"""The modules behind api_audit.py. Data flows one way:

files -> sources -> resolve -> rules -> report
                      ^          ^
                 (syntax)    surface, curated
"""
