"""What a user types, one file for each verb."""
