"""The tables of one partition's state. Everything in them follows from the log."""

FORMAT = 4
"""A state of an earlier format is made anew from the log."""

SCHEMA = """
CREATE TABLE chain (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  next_offset INTEGER NOT NULL, hash BLOB NOT NULL,
  next_call INTEGER NOT NULL, at_us INTEGER NOT NULL
);
CREATE TABLE void (offset INTEGER PRIMARY KEY);
CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE space (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
  active INTEGER NOT NULL DEFAULT 0, words INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE outcome (
  tenant TEXT NOT NULL, key TEXT NOT NULL, own_key INTEGER NOT NULL,
  call_offset INTEGER NOT NULL, at_us INTEGER NOT NULL,
  fingerprint BLOB NOT NULL, refused INTEGER NOT NULL, code INTEGER, reply BLOB NOT NULL,
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX outcome_age ON outcome (own_key, call_offset);
CREATE TABLE audit (
  subject TEXT NOT NULL, call_offset INTEGER NOT NULL, PRIMARY KEY (subject, call_offset)
) WITHOUT ROWID;

CREATE TABLE session (
  id TEXT PRIMARY KEY, space INTEGER NOT NULL, context TEXT NOT NULL,
  started_at_us INTEGER NOT NULL, ended_at_us INTEGER, outcome_score REAL
) WITHOUT ROWID;
CREATE TABLE memory (
  id INTEGER PRIMARY KEY, space INTEGER NOT NULL, kind TEXT NOT NULL, perception_type TEXT,
  content TEXT NOT NULL, content_hash TEXT NOT NULL, guard TEXT NOT NULL, words INTEGER NOT NULL,
  version INTEGER NOT NULL, context TEXT NOT NULL, category TEXT NOT NULL, tags TEXT NOT NULL,
  scope_files TEXT NOT NULL, confidence REAL NOT NULL, session TEXT,
  data TEXT, metadata TEXT,
  status TEXT NOT NULL, superseded_by INTEGER, forgotten_because TEXT,
  created_at_us INTEGER NOT NULL, updated_at_us INTEGER NOT NULL,
  accessed_at_us INTEGER, access_count INTEGER NOT NULL DEFAULT 0, decayed_at_us INTEGER
);
CREATE INDEX memory_hash ON memory (space, content_hash) WHERE status = 'active';
CREATE INDEX memory_session ON memory (session) WHERE session IS NOT NULL;
CREATE INDEX memory_active ON memory (space, id) WHERE status = 'active';
CREATE TABLE posting (
  space INTEGER NOT NULL, token TEXT NOT NULL, guard TEXT NOT NULL, memory INTEGER NOT NULL,
  words INTEGER NOT NULL,
  PRIMARY KEY (space, token, guard, memory)
) WITHOUT ROWID;
CREATE TABLE frequency (
  space INTEGER NOT NULL, token TEXT NOT NULL, memories INTEGER NOT NULL,
  PRIMARY KEY (space, token)
) WITHOUT ROWID;
CREATE TABLE vector (
  memory INTEGER NOT NULL, model TEXT NOT NULL, vector BLOB NOT NULL,
  PRIMARY KEY (memory, model)
) WITHOUT ROWID;
"""

CANONICAL = {
    "counter": "name",
    "space": "name",
    "outcome": "tenant, key",
    "audit": "subject, call_offset",
    "session": "id",
    "memory": "id",
    "posting": "space, token, guard, memory",
    "frequency": "space, token",
    "vector": "memory, model",
}
"""Tables that make up the canonical hash, each with the order its rows are hashed in."""
