"""Do all ways of speculating give the very tokens of plain decoding? Every drafter, gamma, order and number of rows.

The rule: with the coupled rule (and at temperature 0 with any exact one) every answer equals plain decoding's, token
by token. A first difference is forgiven, and counted, only as a near-tie within the bound of the dtype.
"""
