"""The transaction coordinator: who owns a transactional id, and how its transaction ends. Pure."""
