"""The store: one contract on SQLite and PostgreSQL. Every method is one short, durable transaction.

Projects    register_project, find_project, get_project, list_projects, set_config, describe_project,
            add_task_fields, mark_deleted
Pulls       begin_pull -> as_of; apply(Batch(..., as_of=as_of)); delete_missing(..., as_of=as_of);
            delete_missing_tasks(..., as_of=as_of); finish_pull; request_full_pull (project.full_pull_needed)
Answers     apply(project_id, Batch) -> Applied; changes_since, count_changes, load_answers, judged_answers,
            answer_times, first_coins, annotator_answers, comparison_rows, skips, get_tasks, list_tasks, iter_tasks,
            annotator_tasks, name_annotators,
            list_annotators, item_labels
Runs        request_run, claim_run, progress_run, finish_run, fail_run, drop_run, get_run, latest_run, list_runs,
            queue_age, page_annotators, run_annotator, all_annotators, all_items, page_items, item_scores,
            order_changes, run_path, list_flags, run_counts
Evidence    get_live, put_live (compare-and-set on the sequence number), get_curve
Decisions   add_decision, add_review, list_decisions, current_decisions, verify_decisions
People      find_people, person_projects, person_names, person_rows, erase_person, readmit_person, compact
Leases      acquire_lease, renew_lease, release_lease (the database's clock; `token` is the fencing token)
Publishing  get_publications, put_publication, delete_publication, publication_states, add_notification,
            due_notifications, settle_notification
Operation   raise_problem, resolve_problem, list_problems, count_event, event_counts, put_user,
            get_password_hash, list_users, delete_user, login_delay, record_login, shared_secret, database_time

Sequence numbers: every accepted change advances `projects.seq` inside its transaction, under a lock on the project's
row, so that commit order is sequence order. `changes` holds what statistics see: weight -1 takes an answer out, +1
puts one in; `is_first` marks the first time an annotation id is ever judged; `at` is the time of arrival.
"""

from backend.database import migrate, open_engine
from backend.settings import Settings
from backend.store.erasure import ErasureStore
from backend.store.evidence import EvidenceStore
from backend.store.projects import ProjectStore
from backend.store.runs import RunStore

__all__ = ["Store", "open_store"]


class Store(ProjectStore, RunStore, EvidenceStore, ErasureStore):
    """Everything the service remembers."""


def open_store(settings: Settings) -> Store:
    """Open the configured database, bring its schema up to date, and wrap it."""
    engine = open_engine(settings.database_url, pool_size=settings.threads + 4)
    migrate(engine)
    return Store(engine)
