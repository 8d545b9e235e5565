"""The state's own tables, whatever the families are. Everything in them follows from the log."""

FORMAT = 7
"""A state of an earlier format is made anew from the log, and so is one with other tables."""

SCHEMA = """
CREATE TABLE chain (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  next_offset INTEGER NOT NULL, hash BLOB NOT NULL,
  next_call INTEGER NOT NULL, at_us INTEGER NOT NULL
);
CREATE TABLE made (tables TEXT NOT NULL);
CREATE TABLE void (offset INTEGER PRIMARY KEY);
CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE outcome (
  tenant TEXT NOT NULL, key TEXT NOT NULL, space TEXT NOT NULL, own_key INTEGER NOT NULL,
  call_offset INTEGER NOT NULL, at_us INTEGER NOT NULL,
  fingerprint BLOB NOT NULL, refused INTEGER NOT NULL, code INTEGER, reply BLOB NOT NULL,
  PRIMARY KEY (tenant, key, space)
) WITHOUT ROWID;
CREATE INDEX outcome_age ON outcome (own_key, call_offset);
CREATE TABLE audit (
  subject TEXT NOT NULL, call_offset INTEGER NOT NULL, PRIMARY KEY (subject, call_offset)
) WITHOUT ROWID;
"""

CANONICAL = {
    "counter": "SELECT * FROM counter ORDER BY name",
    "space": "SELECT * FROM space ORDER BY name",
    "outcome": "SELECT * FROM outcome ORDER BY tenant, key, space",
    "audit": "SELECT * FROM audit ORDER BY subject, call_offset",
}
"""What makes up the canonical hash, each with the query that gives its rows in order."""
