"""The bench harness: peers, loads, measurements and the report. Standard library only."""
