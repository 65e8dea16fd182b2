"""The modules behind api_audit.py. Each does one thing, and data flows one way:

sources       files -> syntax trees
scopes        syntax trees -> bound names and candidates      (syntax: small questions about trees)
resolve       candidates -> uses of TileLang, no release in mind
surface       the vendored data of a release
rules         a use, a surface -> a problem or none           (curated: what data cannot say)
explain       a problem -> a finding in words                 (findings: the codes)
run           many files -> findings                          (config: settings; compare: several releases)
report, fix   findings -> text, JSON, GitHub, SARIF; rewritten files
"""
