"""What tests share: real brokers as child processes, and waiting for a condition with a deadline."""
