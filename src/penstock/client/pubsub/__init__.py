"""What a Publisher and a Subscriber decide, without any network: numbers, positions, what comes next."""
