"""Rewriting: functions that make plain numbers of sizes, or loop as run time says, are run from a rewritten source."""
