"""The sending half of a QP: posted work, packets of data, what comes back, losses."""
