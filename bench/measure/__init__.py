"""One module per question; each turns a session into rows of the table."""
