"""The robot family's tables."""

SCHEMA = """
CREATE TABLE collection (
  space INTEGER PRIMARY KEY, active INTEGER NOT NULL, words INTEGER NOT NULL
);
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
CREATE TABLE teacher (memory INTEGER PRIMARY KEY, actor TEXT NOT NULL);
CREATE INDEX memory_hash ON memory (space, content_hash) WHERE status = 'active';
CREATE INDEX memory_session ON memory (session) WHERE session IS NOT NULL;
CREATE INDEX memory_active ON memory (space, id) WHERE status = 'active';
CREATE TABLE posting (
  space INTEGER NOT NULL, token TEXT NOT NULL, guard TEXT NOT NULL, memory INTEGER NOT NULL,
  words INTEGER NOT NULL,
  PRIMARY KEY (space, token, guard, memory)
) WITHOUT ROWID;
CREATE TABLE place (
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
    "collection": "SELECT * FROM collection ORDER BY space",
    "session": "SELECT * FROM session ORDER BY id",
    "memory": "SELECT * FROM memory ORDER BY id",
    "teacher": "SELECT * FROM teacher ORDER BY memory",
    "posting": "SELECT * FROM posting ORDER BY space, token, guard, memory",
    "place": "SELECT * FROM place ORDER BY space, token, guard, memory",
    "frequency": "SELECT * FROM frequency ORDER BY space, token",
    "vector": "SELECT * FROM vector ORDER BY memory, model",
}
