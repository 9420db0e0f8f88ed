CREATE TABLE definitions (
    digest TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (digest)
)
 WITHOUT ROWID;

CREATE TABLE events (
    run_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    root_id TEXT NOT NULL,
    root_seq BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    at BIGINT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX events_of_tree ON events (root_id, root_seq);

CREATE TABLE files (
    uri TEXT NOT NULL,
    holder TEXT NOT NULL,
    owner TEXT NOT NULL,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (uri, holder)
)
 WITHOUT ROWID;

CREATE INDEX files_of_holder ON files (holder);

CREATE TABLE limits (
    owner TEXT NOT NULL,
    max_running BIGINT NOT NULL,
    PRIMARY KEY (owner)
)
 WITHOUT ROWID;

CREATE TABLE messages (
    id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    parent_id TEXT,
    participant TEXT NOT NULL,
    parts TEXT NOT NULL,
    run_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX messages_of_parent ON messages (parent_id);

CREATE INDEX messages_of_thread ON messages (thread_id, created_at, id);

CREATE TABLE partials (
    run_id TEXT NOT NULL,
    turn BIGINT NOT NULL,
    try BIGINT NOT NULL,
    kind TEXT NOT NULL,
    "offset" BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run_id, turn, try, kind, "offset")
)
 WITHOUT ROWID;

CREATE TABLE requirements (
    digest TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (digest)
)
 WITHOUT ROWID;

CREATE TABLE runs (
    id TEXT NOT NULL,
    root_id TEXT NOT NULL,
    parent_id TEXT,
    call_id TEXT,
    depth INTEGER NOT NULL,
    owner TEXT NOT NULL,
    thread_id TEXT,
    message_id TEXT,
    target TEXT NOT NULL,
    definition TEXT,
    requires TEXT NOT NULL,
    durability TEXT NOT NULL,
    priority INTEGER NOT NULL,
    due_at BIGINT NOT NULL,
    expires_at BIGINT,
    source_run_id TEXT,
    source_seq BIGINT,
    idempotency_key TEXT,
    request_digest TEXT,
    status TEXT NOT NULL,
    reason TEXT,
    recovered BOOLEAN NOT NULL,
    waits_for TEXT,
    wake_at BIGINT,
    cause TEXT NOT NULL,
    cancelled BOOLEAN NOT NULL,
    attempt INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    worker_id TEXT,
    last_seq BIGINT NOT NULL,
    tree_seq BIGINT NOT NULL,
    signal_seq BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    after_run_id TEXT,
    purse_limit BIGINT,
    purse_spent BIGINT,
    purse_held BIGINT,
    reserved BIGINT,
    answer_key TEXT,
    PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX runs_behind ON runs (after_run_id) WHERE after_run_id IS NOT NULL;

CREATE INDEX runs_by_answer ON runs (owner, answer_key, finished_at) WHERE answer_key IS NOT NULL;

CREATE UNIQUE INDEX runs_by_key ON runs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE UNIQUE INDEX runs_of_parent ON runs (parent_id, call_id) WHERE parent_id IS NOT NULL;

CREATE INDEX runs_of_root ON runs (root_id) WHERE parent_id IS NOT NULL;

CREATE INDEX runs_of_source ON runs (source_run_id) WHERE source_run_id IS NOT NULL;

CREATE INDEX runs_of_thread ON runs (thread_id) WHERE thread_id IS NOT NULL;

CREATE INDEX runs_of_worker ON runs (worker_id) WHERE status = 'running';

CREATE INDEX runs_to_claim ON runs (priority DESC, due_at, id) WHERE status = 'queued' AND after_run_id IS NULL AND wake_at IS NULL;

CREATE INDEX runs_to_expire ON runs (expires_at) WHERE expires_at IS NOT NULL AND status IN ('queued', 'running', 'waiting');

CREATE INDEX runs_to_wake ON runs (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE signals (
    run_id TEXT NOT NULL,
    n BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (run_id, n)
)
 WITHOUT ROWID;

CREATE INDEX signals_of_pauses ON signals (run_id, n) WHERE kind IN ('pause', 'resume');

CREATE TABLE threads (
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    title TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT,
    PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX threads_by_time ON threads (updated_at, id);

CREATE INDEX threads_dropped ON threads (id) WHERE deleted_at IS NOT NULL;

CREATE INDEX threads_of_owner ON threads (owner, updated_at, id);

CREATE TABLE tickets (
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    root_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    call_id TEXT NOT NULL,
    status TEXT NOT NULL,
    title TEXT NOT NULL,
    data TEXT NOT NULL,
    decision TEXT,
    opened_at BIGINT NOT NULL,
    expires_at BIGINT,
    closed_at BIGINT,
    PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX tickets_of_run ON tickets (run_id);

CREATE INDEX tickets_open ON tickets (id) WHERE status = 'open';

CREATE INDEX tickets_to_expire ON tickets (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL;

CREATE TABLE workers (
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid BIGINT NOT NULL,
    process_started TEXT NOT NULL,
    concurrency BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    draining_since BIGINT,
    owner_limit BIGINT,
    loads TEXT NOT NULL,
    PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO alembic_version (version_num) VALUES ('0001');
