"""BM25's constants, which Tantivy has fixed: who ranks by words ranks by these."""

K1 = 1.2
B = 0.75
