"""The episodes family's tables."""

SCHEMA = """
CREATE TABLE episode (
  id INTEGER PRIMARY KEY, space INTEGER NOT NULL, uuid TEXT NOT NULL, description TEXT NOT NULL,
  domain TEXT NOT NULL, task_type TEXT NOT NULL, language TEXT, framework TEXT, complexity TEXT,
  version INTEGER NOT NULL, created_at_us INTEGER NOT NULL, completed_at_us INTEGER,
  steps INTEGER NOT NULL, failed_steps INTEGER NOT NULL, latency_ms INTEGER NOT NULL,
  last_step INTEGER NOT NULL, last_step_at_us INTEGER,
  outcome TEXT, outcome_type TEXT, success REAL, reward REAL, rewarded TEXT, reflection TEXT
);
CREATE UNIQUE INDEX episode_uuid ON episode (space, uuid);
CREATE INDEX episode_created ON episode (space, created_at_us, id);
CREATE INDEX episode_domain ON episode (space, domain, task_type, id);
CREATE INDEX episode_completed ON episode (space, completed_at_us);
CREATE TABLE episode_step (
  episode INTEGER NOT NULL, number INTEGER NOT NULL, tool TEXT NOT NULL, action TEXT NOT NULL,
  failed INTEGER NOT NULL, result_type TEXT, parameters TEXT, result TEXT, latency_ms INTEGER,
  at_us INTEGER NOT NULL, PRIMARY KEY (episode, number)
) WITHOUT ROWID;
CREATE TABLE episode_tag (
  episode INTEGER NOT NULL, tag TEXT NOT NULL, space INTEGER NOT NULL, PRIMARY KEY (episode, tag)
) WITHOUT ROWID;
CREATE INDEX episode_tagged ON episode_tag (space, tag, episode);
CREATE TABLE pattern (
  id INTEGER PRIMARY KEY, space INTEGER NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
  domain TEXT NOT NULL, task_type TEXT NOT NULL, description TEXT NOT NULL, text TEXT NOT NULL,
  tools TEXT NOT NULL, tags TEXT NOT NULL, occurrences INTEGER NOT NULL, successes REAL NOT NULL,
  first_at_us INTEGER NOT NULL, last_at_us INTEGER NOT NULL
);
CREATE UNIQUE INDEX pattern_key ON pattern (space, key);
CREATE INDEX pattern_type ON pattern (space, task_type, domain);
CREATE INDEX pattern_domain ON pattern (space, domain);
CREATE TABLE evidence (
  pattern INTEGER NOT NULL, episode INTEGER NOT NULL, success REAL NOT NULL, at_us INTEGER NOT NULL,
  PRIMARY KEY (pattern, episode)
) WITHOUT ROWID;
CREATE INDEX evidence_episode ON evidence (episode);
CREATE TABLE relationship (
  id INTEGER PRIMARY KEY, space INTEGER NOT NULL, uuid TEXT NOT NULL, source INTEGER NOT NULL,
  target INTEGER NOT NULL, type TEXT NOT NULL, reason TEXT, priority INTEGER, created_by TEXT,
  created_at_us INTEGER NOT NULL
);
CREATE UNIQUE INDEX relationship_uuid ON relationship (space, uuid);
CREATE UNIQUE INDEX relationship_once ON relationship (source, type, target);
CREATE INDEX relationship_target ON relationship (target, type, source);
"""

CANONICAL = {
    "episode": "SELECT * FROM episode ORDER BY id",
    "episode_step": "SELECT * FROM episode_step ORDER BY episode, number",
    "episode_tag": "SELECT * FROM episode_tag ORDER BY episode, tag",
    "pattern": "SELECT * FROM pattern ORDER BY id",
    "evidence": "SELECT * FROM evidence ORDER BY pattern, episode",
    "relationship": "SELECT * FROM relationship ORDER BY id",
}
