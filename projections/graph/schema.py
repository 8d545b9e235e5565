"""The knowledge graph's tables."""

SCHEMA = """
CREATE TABLE entity (
  id INTEGER PRIMARY KEY, space INTEGER NOT NULL, name TEXT NOT NULL, type TEXT NOT NULL,
  version INTEGER NOT NULL, created_at_us INTEGER NOT NULL, updated_at_us INTEGER NOT NULL,
  accessed_at_us INTEGER NOT NULL, access_count INTEGER NOT NULL, access_days INTEGER NOT NULL
);
CREATE UNIQUE INDEX entity_name ON entity (space, name);
CREATE INDEX entity_page ON entity (space, id);
CREATE TABLE observation (
  entity INTEGER NOT NULL, place INTEGER NOT NULL, content TEXT NOT NULL,
  added_at_us INTEGER NOT NULL, similarity_flag INTEGER NOT NULL, PRIMARY KEY (entity, place)
) WITHOUT ROWID;
CREATE INDEX observation_flagged ON observation (entity) WHERE similarity_flag = 1;
CREATE UNIQUE INDEX observation_content ON observation (entity, content);
CREATE TABLE relation (
  id INTEGER PRIMARY KEY, space INTEGER NOT NULL, source INTEGER NOT NULL, target INTEGER NOT NULL,
  type TEXT NOT NULL, created_at_us INTEGER NOT NULL, ended_at_us INTEGER
);
CREATE UNIQUE INDEX relation_active ON relation (source, target, type) WHERE ended_at_us IS NULL;
CREATE INDEX relation_source ON relation (source);
CREATE INDEX relation_target ON relation (target);
CREATE TABLE together (
  first INTEGER NOT NULL, second INTEGER NOT NULL, times INTEGER NOT NULL, at_us INTEGER NOT NULL,
  PRIMARY KEY (first, second)
) WITHOUT ROWID;
CREATE INDEX together_second ON together (second);
CREATE TABLE node (id INTEGER PRIMARY KEY, entity INTEGER NOT NULL, content TEXT NOT NULL);
CREATE INDEX node_entity ON node (entity, content);
CREATE VIRTUAL TABLE node_text USING fts5 (content, tokenize = 'trigram', detail = none);
CREATE VIRTUAL TABLE node_terms USING fts5vocab (node_text, row);
CREATE TABLE reflection (
  id INTEGER PRIMARY KEY, space INTEGER NOT NULL, target_type TEXT NOT NULL, target INTEGER,
  author TEXT NOT NULL, mood TEXT, content TEXT NOT NULL, created_at_us INTEGER NOT NULL
);
CREATE INDEX reflection_space ON reflection (space, author);
"""

CANONICAL = {
    "entity": "SELECT * FROM entity ORDER BY id",
    "observation": "SELECT * FROM observation ORDER BY entity, place",
    "relation": "SELECT * FROM relation ORDER BY id",
    "together": "SELECT * FROM together ORDER BY first, second",
    "node": "SELECT entity, content FROM node ORDER BY entity, content",
    "node_text": "SELECT node.entity, node_text.content FROM node_text JOIN node"
    " ON node.id = node_text.rowid ORDER BY node.entity, node_text.content",
    "node_terms": "SELECT term, doc, cnt FROM node_terms ORDER BY term",
    "reflection": "SELECT * FROM reflection ORDER BY id",
}
"""`node`, the text of its index and the terms of it are what search_nodes looks into."""
