"""Golden numbers of the other papers' systems: a loader, one pass, and a builder file for each family of cases."""
